"""A network of its own for a sandbox, by slirp4netns where that is installed."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

RESOLVER = "10.0.2.3"
"""Address at which slirp4netns answers name queries."""

_READY_LIMIT_MS = 10_000


@dataclass(frozen=True, kw_only=True)
class Network:
    """The way out of one sandbox, which ends when `close` was called or this process has ended."""

    process: subprocess.Popen[bytes]
    lifeline: int

    def close(self) -> None:
        """End it."""
        os.close(self.lifeline)
        self.process.kill()
        self.process.wait()


Connect = Callable[[int], Network | str]
"""Gives a network to the sandbox whose first process has that pid, or says why it cannot."""


def can_connect() -> bool:
    """Whether sandboxes of this machine get networks of their own: whether slirp4netns is installed."""
    return shutil.which("slirp4netns") is not None


def find_connect(bubblewrap: Path) -> Connect | None:
    """How a sandbox gets a network of its own; `None` where slirp4netns is not installed.

    Args:
        bubblewrap: The `bwrap` to use.
    """
    program = shutil.which("slirp4netns")
    if program is None:
        return None
    command = [program] if os.geteuid() else [*_apart(bubblewrap), program]
    return lambda pid: _connect(command, pid)


def _apart(bubblewrap: Path) -> list[str]:
    """Runs a program of root's with the mounts of this machine, of which none that it unmounts is unmounted here.

    As root, slirp4netns leaves what is mounted below a shared mount shared, and unmounts all of it for itself: with it
    would go, say, the root file system of each container that an engine is about to start.
    """
    return [str(bubblewrap), "--dev-bind", "/", "/", "--cap-add", "ALL"]


def _namespaces(pid: int) -> list[str]:
    """Whose network it is to connect, as slirp4netns takes it.

    By paths, it needs a group 0 that it may become; by pid, it needs to be the owner of the user namespace.
    """
    if os.geteuid():
        return [str(pid)]
    return [f"--userns-path=/proc/{pid}/ns/user", "--netns-type=path", f"/proc/{pid}/ns/net"]


def _connect(command: Sequence[str], pid: int) -> Network | str:
    ready, ready_end = os.pipe()
    lifeline_end, lifeline = os.pipe()
    try:
        # It opens /dev/net/tun, for which root may be needed; then it drops what it does not need itself.
        process = subprocess.Popen(
            [
                *(*command, "--configure", "--mtu=65520", "--disable-host-loopback", "--enable-sandbox"),
                *("--enable-seccomp", f"--ready-fd={ready_end}", f"--exit-fd={lifeline_end}"),
                *_namespaces(pid),
                "tap0",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(ready_end, lifeline_end),
            cwd="/",
            env={},
            # As with the sandbox itself, what a terminal sends is not for it.
            start_new_session=True,
        )
    except OSError as error:
        for descriptor in (ready, ready_end, lifeline_end, lifeline):
            os.close(descriptor)
        return f"slirp4netns does not start: {error.strerror}"
    os.close(ready_end)
    os.close(lifeline_end)
    network = Network(process=process, lifeline=lifeline)
    poll = select.poll()
    poll.register(ready, select.POLLIN)
    is_up = bool(poll.poll(_READY_LIMIT_MS)) and os.read(ready, 1) == b"1"
    os.close(ready)
    if is_up:
        return network
    network.close()
    return "slirp4netns cannot connect a sandbox here (does this user have access to /dev/net/tun?)"
