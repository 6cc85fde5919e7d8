"""Nothing ever asks anybody anything, and no login is seen."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from pydantic import ValidationError

from agentix.api import ShipError, ShipRefused, StepContext
from agentix.plugins.transports.github import Github, GithubInputs
from agentix.plugins.transports.github.git import Git, batch_ssh

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


async def ship(source: Path, repo: Path | str, ctx: StepContext, **inputs: Any) -> Any:
    given = {"dest": "jobs/nightly/r1", "repo": str(repo), **inputs}
    return await Github().ship(source, GithubInputs.model_validate(given), ctx)


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
        with anyio.fail_after(30), pytest.raises(ShipRefused, match="gh auth setup-git"):
            await ship(finished, address, context())
        store(machine, address, "wrong-one")
        with anyio.fail_after(30), pytest.raises(ShipRefused, match=r"Authentication failed.*GH_TOKEN") as caught:
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


@pytest.fixture
def strange_host(tmp_path: Path) -> Iterator[int]:
    """A real ssh server whose key nobody knows."""
    rclone = Path(sys.executable).with_name("rclone")
    if not rclone.exists() or shutil.which("ssh") is None:
        pytest.skip("needs rclone, which serves sftp, and ssh")
    argv = [
        rclone,
        "serve",
        "sftp",
        str(tmp_path),
        "--addr",
        "127.0.0.1:0",
        "--user",
        "git",
        "--pass",
        "opensesame",
    ]
    with (tmp_path / "sftp.log").open("wb") as log:
        server = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield _port_of(server, tmp_path / "sftp.log")
        finally:
            server.kill()
            server.wait()


def _port_of(server: subprocess.Popen[bytes], log: Path) -> int:
    """The port that it has been given, once it says so: by then it listens."""
    end = time.monotonic() + 60
    while time.monotonic() < end and server.poll() is None:
        if said := re.search(r"listening on 127\.0\.0\.1:(\d+)\n", log.read_text()):
            return int(said[1])
        time.sleep(0.05)
    raise AssertionError(f"the server does not answer: {log.read_text()}")


@pytest.mark.real
@pytest.mark.anyio
async def test_a_host_whose_key_is_not_known_is_refused_at_once(
    strange_host: int, finished: Path, context: Make, machine: Path
) -> None:
    known = machine / "known_hosts"
    with (machine / ".gitconfig").open("a") as config:
        config.write(f'[core]\n\tsshCommand = ssh -F none -o UserKnownHostsFile="{known}"\n')
    with anyio.fail_after(30), pytest.raises(ShipRefused, match="Host key verification failed"):
        await ship(finished, f"ssh://git@127.0.0.1:{strange_host}/x.git", context())
    scanned = await anyio.run_process(["ssh-keyscan", "-T", "60", "-p", str(strange_host), "127.0.0.1"])
    known.write_bytes(scanned.stdout)
    with anyio.fail_after(30), pytest.raises(ShipRefused, match=r"Permission denied.*SSH_AUTH_SOCK"):
        await ship(finished, f"ssh://git@127.0.0.1:{strange_host}/x.git", context())


@pytest.mark.parametrize(
    ("configured", "command"),
    [
        (None, "ssh -o BatchMode=yes -o ConnectTimeout=30"),
        ("ssh -i '/a b/key'", "ssh -i '/a b/key' -o BatchMode=yes -o ConnectTimeout=30"),
        ("/usr/bin/ssh", "/usr/bin/ssh -o BatchMode=yes -o ConnectTimeout=30"),
        ("plink -batch", None),
        ("/opt/my-ssh-wrapper", None),
        ("'", None),
    ],
)
def test_ssh_is_told_to_ask_nothing(configured: str | None, command: str | None) -> None:
    assert batch_ssh(configured) == command


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


@pytest.mark.parametrize(
    ("repo", "words"),
    [
        ("https://me:opensesame@example.com/x.git", "login in it"),
        ("https://ghp_opensesame@github.com/x/y", "login in it"),
        ("https://me@example.com/x.git", "login in it"),
        ("ssh://git:opensesame@example.com/x.git", "login in it"),
        ("ext::sh -c touch% /tmp/x", "of this kind"),
        ("ext::https://x/y", "of this kind"),
        ("ftp://example.com/x", "of this kind"),
        ("--upload-pack=x", "path of a checkout"),
        ("", "path of a checkout"),
    ],
)
def test_addresses_with_a_login_or_a_command_are_refused(repo: str, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        GithubInputs(dest="x", repo=repo)


@pytest.mark.parametrize(
    "dest", ["", "/", "/etc", ".", "a/../b", "a//b", "..", ".git/hooks", "a/.GIT", "a\nb", "a/./b"]
)
def test_dest_is_a_directory_inside(dest: str) -> None:
    with pytest.raises(ValidationError, match="dest"):
        GithubInputs(dest=dest)


@pytest.mark.parametrize(
    "branch", ["", "-d", "a..b", "a b", "a~1", "x:y", "a.lock", "/a", "a/", "a.", "@{u}a@{", "a//b"]
)
def test_a_branch_has_a_name_of_one(branch: str) -> None:
    with pytest.raises(ValidationError, match="name of a branch"):
        GithubInputs(dest="x", branch=branch)


@pytest.mark.parametrize("branch", ["main", "runs/r1", "r-1.2_x", "ü"])
def test_ordinary_branches_are_taken(branch: str) -> None:
    assert GithubInputs(dest="a/b/", branch=branch).branch == branch
    assert GithubInputs(dest="a/b/").dest == "a/b"
