"""One running sandbox, as its owner and as others see it, and its end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agentix.api import HostError, start_time
from agentix.providers.local import cgroups
from agentix.providers.local.arguments import MARK
from agentix.providers.local.lease import Lease, Leases
from agentix.providers.local.network import Network

LOG_TAIL = 4000

_END_LIMIT_S = 20.0
_ENDING_LIMIT_S = 5.0
_EXITING = 0x4
"""Of a process's flags (PF_EXITING of the kernel): it ends, and may have given up its memory with its command line."""


@dataclass(kw_only=True)
class Box:
    """A sandbox that this process has started."""

    lease: Lease
    process: subprocess.Popen[bytes]
    """Bubblewrap outside: the parent of the sandbox's first process, whose exit code it passes on."""
    wire: socket.socket
    log: int
    """Memory file with what bubblewrap and the server have said."""
    network: Network | None = None
    notes: tuple[str, ...] = ()
    dialled: bool = False
    ended: bool = field(default=False, init=False)

    @property
    def groups(self) -> tuple[Path, ...]:
        """Its control groups."""
        return tuple(Path(path) for path in self.lease.cgroups)

    def log_tail(self) -> str:
        """The last that was said."""
        return log_tail(self.log)

    def oom_kills(self) -> int:
        """How many of its processes were killed for memory."""
        return cgroups.oom_kills(self.groups)


def log_tail(log: int) -> str:
    """The end of a memory file, as text."""
    with contextlib.suppress(OSError):
        size = os.fstat(log).st_size
        return os.pread(log, LOG_TAIL, max(0, size - LOG_TAIL)).decode("utf-8", "replace").strip()
    return ""


def end(box: Box, leases: Leases) -> None:
    """End a sandbox of this process; returns when nothing of it is left.

    Raises:
        HostError: Something is left.
    """
    if not box.ended:
        if not box.dialled:
            box.wire.close()
        if box.network is not None:
            box.network.close()
        clean = stop(box.process, first=box.lease.processes[1][0])
        box.ended = True
        os.close(box.log)
        if clean:
            _forget(box.lease, leases, deadline=time.monotonic() + _END_LIMIT_S)
            return
    clear(box.lease, leases)


def stop(process: subprocess.Popen[bytes], *, first: int | None = None) -> bool:
    """End bubblewrap and what it has started; whether it surely took everything inside along.

    Args:
        process: Bubblewrap outside.
        first: The sandbox's first process. Ended alone, it takes everything inside with it and is reaped by
            bubblewrap, where nobody else may do that.
    """
    if process.poll() is None:
        # A pid is not used again while its parent lives. Until it has its uids, what bubblewrap has started does
        # not end with bubblewrap, but waits for it for ever.
        for child in _children(process.pid) if first is None else [first]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        if first is not None and wait(process, limit_s=_END_LIMIT_S) is not None:
            return True
    process.kill()
    process.wait()
    return False


def wait(process: subprocess.Popen[bytes], *, limit_s: float) -> int | None:
    """The exit code of a child of this process, as soon as there is one; `None` where there is none in time."""
    # Popen's own wait with a limit sleeps for up to 50 ms at a time.
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(process.pid)
            try:
                poll = select.poll()
                poll.register(descriptor, select.POLLIN)
                poll.poll(limit_s * 1000)
            finally:
                os.close(descriptor)
    return process.poll()


def clear(lease: Lease, leases: Leases) -> None:
    """End a sandbox by what its lease says, whoever made it; returns when nothing of it is left.

    Raises:
        HostError: Something is left.
    """
    deadline = time.monotonic() + _END_LIMIT_S
    with contextlib.ExitStack() as stack:
        for descriptor in _running(lease, stack):
            _end(descriptor, deadline, lease)
    if not lease.processes:
        _let_end()
    _forget(lease, leases, deadline=deadline)


def _forget(lease: Lease, leases: Leases, *, deadline: float) -> None:
    """Remove what is left of a sandbox without processes."""
    groups = tuple(Path(path) for path in lease.cgroups)
    left = cgroups.remove(groups, patience_s=max(0.1, deadline - time.monotonic()))
    if left:
        raise HostError(f"the control group {left[0]} of sandbox {lease.id} cannot be removed: it is in use")
    leases.release(lease)


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    return []


def _strays(lease: Lease) -> Iterator[tuple[int, int]]:
    """Processes whose owner died between starting them and writing them down."""
    mark = f"\0{MARK}\0{lease.id}\0".encode("ascii")
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdecimal():
            with contextlib.suppress(OSError):
                if mark in Path("/proc", name, "cmdline").read_bytes():
                    yield int(name), start_time(int(name)) or 0


def _let_end() -> None:
    """Wait for everything that is ending: what a stray was can be told no more by then, and it takes but a moment."""
    deadline = time.monotonic() + _ENDING_LIMIT_S
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdecimal():
            with contextlib.suppress(OSError, IndexError):
                fields = Path("/proc", name, "stat").read_bytes().rsplit(b")", 1)[1].split()
                if fields[0] not in (b"Z", b"X") and int(fields[6]) & _EXITING:
                    descriptor = os.pidfd_open(int(name))
                    try:
                        poll = select.poll()
                        poll.register(descriptor, select.POLLIN)
                        poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
                    finally:
                        os.close(descriptor)


def _running(lease: Lease, stack: contextlib.ExitStack) -> Iterator[int]:
    # The first process inside first: all others inside are gone when it is, and bubblewrap reaps it.
    for pid, start in reversed(lease.processes or (*_strays(lease),)):
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            continue
        stack.callback(os.close, descriptor)
        # Looked at after opening: from here on the descriptor cannot mean another process.
        if start_time(pid) == start:
            yield descriptor


def _end(descriptor: int, deadline: float, lease: Lease) -> None:
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except ProcessLookupError:
        return
    except OSError as error:
        raise HostError(f"the sandbox {lease.id} cannot be ended: {error.strerror}") from error
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise HostError(f"the processes of sandbox {lease.id} do not end")
