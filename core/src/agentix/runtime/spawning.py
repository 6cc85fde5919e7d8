"""Starting a program without copying the process that does, and what a shell would say where it cannot be."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import errno
import posix
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

DEFAULTED = tuple(number for number in range(1, 32) if number not in (_signal.SIGKILL, _signal.SIGSTOP))
"""Signals that Python, the server or who started it (`nohup`, say) may ignore; a command shall not."""

_KIND, _DEVICE = 0o170000, 0o020000
_BUSY_RETRIES, _BUSY_S = 20, 0.005


def spawn(command: dict[str, Any], descriptors: Sequence[int], *, patient: bool = True) -> tuple[int, int]:
    """Start a command that needs no other user: without copying this process, it takes half the time.

    Args:
        command: What to start.
        descriptors: Its stdin or -1, stdout and stderr.
        patient: Whether to wait for a program that is being written, rather than to raise at once.

    Returns:
        Its pid and 0, or 0 and the status that a shell would give where it cannot be executed.

    Raises:
        OSError: It cannot be started.
    """
    stdin, stdout, stderr = descriptors
    posix.chdir(command["cwd"])
    nothing = -1
    try:
        if stdin < 0:
            stdin = nothing = open_nothing()
        actions = [
            (posix.POSIX_SPAWN_DUP2, stdin, 0),
            (posix.POSIX_SPAWN_DUP2, stdout, 1),
            (posix.POSIX_SPAWN_DUP2, stderr, 2),
        ]
        argv, env = command["argv"], command["env"]

        def start(program: bytes) -> int:
            return posix.posix_spawn(program, argv, env, file_actions=actions, setsid=True, setsigdef=DEFAULTED)

        programs = [program for program in command["programs"] if _exists(program)]
        pid, reason = first(programs, start, patient=patient)
    finally:
        posix.chdir("/")
        if nothing >= 0:
            posix.close(nothing)
    return (pid, 0) if pid else (0, refuse(stderr, argv[0], reason) << 8)


def open_nothing() -> int:
    """A descriptor that gives no input."""
    try:
        # What a command has put in its place may be a pipe, on which opening would wait for a writer.
        nothing = posix.open("/dev/null", posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK)
    except OSError:
        return _open_empty()
    if posix.fstat(nothing).st_mode & _KIND != _DEVICE:
        posix.close(nothing)
        return _open_empty()
    posix.set_blocking(nothing, True)
    return nothing


def _open_empty() -> int:
    empty, closed = posix.pipe2(posix.O_CLOEXEC)
    posix.close(closed)
    return empty


def first(programs: list[bytes], start: Callable[[bytes], int], *, patient: bool = True) -> tuple[int, int]:
    """Start the first program that exists, as execvp(3) does.

    Returns:
        What `start` gave and 0, or 0 and why none of them could be.
    """
    reason = errno.ENOENT
    pending = list(reversed(programs))
    retries = _BUSY_RETRIES
    while pending:
        program = pending.pop()
        try:
            return start(program), 0
        except OSError as error:
            if error.errno == errno.ETXTBSY and not patient:
                raise
            if error.errno == errno.ETXTBSY and retries:
                # Another process was forked while the program was being written, and has it open for a moment.
                retries -= 1
                pending.append(program)
                time.sleep(_BUSY_S)
                continue
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                continue
            if error.errno not in (errno.EACCES, errno.ENOEXEC, errno.EISDIR, errno.ELOOP, errno.ETXTBSY):
                error.filename = None
                raise
            reason = error.errno
            if reason != errno.EACCES:
                break
    return 0, reason


def _exists(program: bytes) -> bool:
    """Whether there is such a file at all; to ask costs a fraction of starting a process that finds out."""
    try:
        posix.stat(program)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        # The start will tell what is wrong.
        pass
    return True


def refuse(stderr: int, name: bytes, reason: int) -> int:
    """Say why a program cannot be executed; the exit code that a shell gives."""
    try:
        posix.write(stderr, b"agentix: " + name[:4096] + b": " + posix.strerror(reason).encode() + b"\n")
    except OSError:
        pass
    return 127 if reason == errno.ENOENT else 126
