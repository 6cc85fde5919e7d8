"""Over ssh nobody is asked anything either."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest
from github_shipping import ship

from agentix.api import ShipRefused, StepContext
from agentix.plugins.transports.github.git import batch_ssh

Make = Callable[..., StepContext]


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
    with anyio.fail_after(60), pytest.raises(ShipRefused, match="Host key verification failed"):
        await ship(finished, f"ssh://git@127.0.0.1:{strange_host}/x.git", context())
    scanned = await anyio.run_process(["ssh-keyscan", "-T", "60", "-p", str(strange_host), "127.0.0.1"])
    known.write_bytes(scanned.stdout)
    with anyio.fail_after(60), pytest.raises(ShipRefused, match=r"Permission denied.*SSH_AUTH_SOCK"):
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
