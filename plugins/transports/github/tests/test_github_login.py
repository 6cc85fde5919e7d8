"""Nothing ever asks anybody anything, and no login is seen."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from github_shipping import ship

from agentix.api import ShipError, ShipRefused, StepContext
from agentix.plugins.transports.github.git import Git

Make = Callable[..., StepContext]
Run = Callable[..., str]
Content = Callable[..., Mapping[str, bytes]]

_SHIP = """
import anyio, sys
from pathlib import Path
from agentix.api import Scope, StepContext
from agentix.plugins.transports.github import Github, GithubInputs

work, source, repo = map(Path, sys.argv[1:4])
ctx = StepContext(scope=Scope.PER_EXPERIMENT, run_id="r1", run_dir=work, work_dir=work, say=print)
try:
    anyio.run(Github().ship, source, GithubInputs(dest="jobs/x", repo=sys.argv[3]), ctx)
except Exception as error:
    print(type(error).__name__, error)
"""


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def store(machine: Path, address: str, password: str) -> None:
    """The credential helper `store`, which knows the login."""
    (machine / ".git-credentials").write_text(address.replace("//", f"//me:{password}@").rsplit("/", 1)[0] + "\n")
    with (machine / ".gitconfig").open("a") as config:
        config.write("[credential]\n\thelper = store\n")


@pytest.mark.anyio
@pytest.mark.parametrize("filtered", [True, False])
async def test_over_http_with_a_login_of_a_helper(
    filtered: bool, bare: Path, machine: Path, finished: Path, context: Make, content: Content, served: Any, git: Run
) -> None:
    git("config", "uploadpack.allowFilter", str(filtered).lower(), cwd=bare)
    with served(bare, password="opensesame") as address:
        store(machine, address, "opensesame")
        receipt = await ship(finished, address, context())
        assert (await ship(finished, address, context())).details["sent"] == 0
    assert receipt.destination == f"{address} main:jobs/nightly/r1"
    assert set(content(bare, "jobs/nightly/r1")) == files(finished)
    git("fsck", "--strict", cwd=bare)


@pytest.mark.anyio
async def test_over_http_from_a_checkout_by_many_at_once(
    bare: Path, machine: Path, tmp_path: Path, finished: Path, context: Make, content: Content, served: Any, git: Run
) -> None:
    with served(bare, password="opensesame") as address:
        store(machine, address, "opensesame")
        checkout = tmp_path / "checkout"
        await anyio.run_process(["git", "clone", "-q", address, str(checkout)], cwd=tmp_path)

        async def one(number: int) -> None:
            work = tmp_path / f"work{number}"
            work.mkdir()
            await ship(finished, checkout, context(work_dir=work), dest=f"jobs/{number}")

        async with anyio.create_task_group() as group:
            for number in range(3):
                group.start_soon(one, number)
    assert git("rev-list", "--count", "main", cwd=bare) == "4\n"
    assert all(set(content(bare, f"jobs/{number}")) == files(finished) for number in range(3))


@pytest.mark.anyio
async def test_what_the_configuration_makes_of_an_address_is_not_told(
    bare: Path, checkout: Path, machine: Path, finished: Path, context: Make, content: Content, served: Any, git: Run
) -> None:
    git("remote", "set-url", "origin", "https://short.example/bare.git", cwd=checkout)
    with served(bare, password="opensesame") as address:
        real = address.replace("//", "//me:opensesame@").removesuffix("bare.git")
        with (machine / ".gitconfig").open("a") as config:
            config.write(f'[url "{real}"]\n\tinsteadOf = https://short.example/\n')
        receipt = await ship(finished, checkout, context())
        assert receipt.destination == "https://short.example/bare.git main:jobs/nightly/r1"
        assert set(content(bare, "jobs/nightly/r1")) == files(finished)
        (finished / "plain.txt").write_text("another")
        (bare / "hooks/pre-receive").write_text("#!/bin/sh\necho no more >&2\nexit 1\n")
        (bare / "hooks/pre-receive").chmod(0o755)
        with pytest.raises(ShipRefused, match="no more") as caught:
            await ship(finished, checkout, context())
        assert "opensesame" not in str(caught.value)


@pytest.mark.anyio
async def test_without_a_login_it_is_refused_at_once(
    bare: Path, machine: Path, finished: Path, context: Make, served: Any
) -> None:
    with served(bare, password="opensesame") as address:
        with anyio.fail_after(60), pytest.raises(ShipRefused, match="gh auth setup-git"):
            await ship(finished, address, context())
        store(machine, address, "wrong-one")
        with anyio.fail_after(60), pytest.raises(ShipRefused, match=r"Authentication failed.*GH_TOKEN") as caught:
            await ship(finished, address, context())
    assert "wrong-one" not in str(caught.value)


@pytest.mark.anyio
@pytest.mark.parametrize(("status", "refused"), [(403, True), (404, True), (502, False), (503, False)])
async def test_what_the_server_says_tells_whether_it_may_work_later(
    status: int, refused: bool, bare: Path, finished: Path, context: Make, served: Any
) -> None:
    with served(bare, status=status) as address, pytest.raises(ShipError) as caught:
        await ship(finished, address, context())
    assert isinstance(caught.value, ShipRefused) is refused, caught.value


@pytest.mark.anyio
async def test_where_nobody_listens_somebody_may_later(finished: Path, context: Make) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ShipError) as caught:
            await ship(finished, f"http://127.0.0.1:{taken.getsockname()[1]}/x.git", context())
    assert not isinstance(caught.value, ShipRefused)


@pytest.mark.parametrize("helper", [None, "tty"])
def test_on_a_terminal_nobody_is_asked(
    helper: str | None, bare: Path, machine: Path, tmp_path: Path, finished: Path, served: Any
) -> None:
    if helper:
        program = tmp_path / "helper"
        program.write_text("#!/bin/sh\nprintf 'password? ' >/dev/tty\nread -r line </dev/tty\necho password=$line\n")
        program.chmod(0o755)
        with (machine / ".gitconfig").open("a") as config:
            config.write(f"[credential]\n\thelper = {program}\n")
    (tmp_path / "work").mkdir()
    shown, inner = os.openpty()
    with served(bare, password="opensesame") as address:
        argv = ["setsid", "--ctty", sys.executable, "-c", _SHIP, str(tmp_path / "work"), str(finished), address]
        running = subprocess.Popen(argv, stdin=inner, stdout=inner, stderr=inner)
        os.close(inner)
        assert running.wait(timeout=60) == 0
    seen = _all_of(shown)
    assert "ShipRefused" in seen and "Git has no login" in seen and "password?" not in seen


def _all_of(terminal: int) -> str:
    seen = b""
    try:
        while chunk := os.read(terminal, 1 << 16):
            seen += chunk
    except OSError:
        pass
    finally:
        os.close(terminal)
    return seen.decode()


@pytest.mark.anyio
async def test_the_token_of_the_environment_is_handed_to_github_alone(
    tmp_path: Path, context: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = Git(cwd=tmp_path, secrets=context().secrets)

    async def filled(host: str) -> Any:
        asked = f"protocol=https\nhost={host}\n\n".encode()
        return await git("credential", "fill", doing="asking", stdin=asked, fails=True)

    assert not (await filled("github.com")).ok
    monkeypatch.setenv("GITHUB_TOKEN", "token-of-actions")
    assert "username=x-access-token\npassword=token-of-actions\n" in (await filled("github.com")).text
    monkeypatch.setenv("GH_TOKEN", "token-of-mine")
    assert "password=token-of-mine\n" in (await filled("github.com")).text
    assert not (await filled("example.com")).ok


@pytest.mark.anyio
async def test_no_login_is_on_a_command_line(
    bare: Path, machine: Path, finished: Path, context: Make, served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    password, token = f"of-helper-{uuid4().hex}", f"of-environment-{uuid4().hex}"
    monkeypatch.setenv("GH_TOKEN", token)
    found: set[str] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    words = path.read_bytes()
                except OSError:
                    continue
                found.update(canary for canary in (password, token) if canary.encode() in words)

    with served(bare, password=password) as address:
        store(machine, address, password)
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            await ship(finished, address, context())
        finally:
            done.set()
            watcher.join()
    assert not found


def test_after_a_kill_in_the_middle_the_next_one_arrives(
    bare: Path, checkout: Path, tmp_path: Path, finished: Path, content: Content, untouched: Any, git: Run
) -> None:
    hook = bare / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\ntouch asked\nexec sleep 600\n")
    hook.chmod(0o755)
    (tmp_path / "work").mkdir()
    before = untouched(checkout)
    argv = [sys.executable, "-c", _SHIP, str(tmp_path / "work"), str(finished), str(checkout)]
    running = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not (bare / "asked").exists() and running.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.wait()
    hook.unlink()
    assert untouched(checkout) == before
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120)
    assert "new, 0 changed" in done.stdout and "Ship" not in done.stdout
    assert untouched(checkout) == before
    assert set(content(bare, "jobs/x")) == files(finished)
    git("fsck", "--strict", cwd=bare)
