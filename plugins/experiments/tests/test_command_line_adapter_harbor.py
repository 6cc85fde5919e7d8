"""The adapter for Harbor: one task, one agent, once; what happened as a reward or as one of our codes."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentix.plugins.experiments.command_line.adapters import write_adapters

SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]

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
        program = tmp_path / "bin/harbor"
        program.parent.mkdir()
        program.write_text(FAKE_HARBOR)
        program.chmod(0o755)
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
        argv = [shutil.which(shell) or "sh", str(self.script)]
        done = subprocess.run(argv, env={**self.env, **env}, capture_output=True, text=True, check=False)
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
def harbor(tmp_path: Path) -> Harbor:
    write_adapters(tmp_path / "adapters")
    return Harbor(tmp_path, tmp_path / "adapters")


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
