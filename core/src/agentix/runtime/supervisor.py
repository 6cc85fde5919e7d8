"""One small process between the server and a command: it adopts whatever the command leaves and can end all of it.

A supervisor is a forked copy of the server, single-threaded, that waits for one message with a command and its
descriptors, runs it, and reports how it ended. When the command left no process behind, it waits for the next one;
else it ends as soon as the server hangs up, and what is left goes to the server.

Messages to it are one byte and a body: `RUN` with the command, `KILL` with the grace in seconds. Its one message is
`ENDED` with a value: `status` as waitpid gives it, `reusable`, `left` (processes that would not die), `error`.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import gc
import posix
import select
import sys
import time

from agentix.runtime import processes, spawning, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

RUN, KILL, ENDED = b"R", b"K", b"E"

MAX_MESSAGE = 1 << 16
"""A longer command is not sent to a waiting supervisor: a new one is forked that has it in memory."""

GIVE_UP_S = 10.0
"""How long killing goes on before what is left is reported."""

_SWEEP_MS = 3
_SETUP_FAILED = 125


def fork(command: dict[str, Any] | None = None, descriptors: Sequence[int] = ()) -> tuple[int, _socket.socket]:
    """Start a supervisor, with its first command where it has one.

    Args:
        command: What `RUN` would carry.
        descriptors: Stdin (or -1), stdout and stderr of the command; they stay open here.

    Returns:
        Its pid and the socket to talk to it.
    """
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC)
    try:
        pid = posix.fork()
    except OSError:
        ours.close()
        theirs.close()
        raise
    if pid:
        theirs.close()
        ours.setblocking(False)
        return pid, ours
    code = 70
    try:
        # Freeing the server's sockets here would close descriptors that have become something else.
        gc.disable()
        _close_all_but({0, 1, 2, theirs.fileno(), *descriptors})
        Supervisor(theirs).serve(command, list(descriptors))
        code = 0
    except BaseException as error:
        posix.write(2, f"agentix runtime: supervisor: {error!r}\n".encode("utf-8", "replace"))
    finally:
        posix._exit(code)


def _close_all_but(kept: set[int]) -> None:
    for name in posix.listdir("/proc/self/fd"):
        fd = int(name)
        if fd not in kept:
            try:
                posix.close(fd)
            except OSError:
                continue


class Supervisor:
    """The forked side.

    Args:
        control: The socket to the server.
    """

    def __init__(self, control: _socket.socket) -> None:
        processes.prctl(processes.PR_SET_CHILD_SUBREAPER, 1)
        self._control = control
        self._wakeup, written = posix.pipe2(posix.O_CLOEXEC | posix.O_NONBLOCK)
        _signal.set_wakeup_fd(written, warn_on_full_buffer=False)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        # As PID 1's child it must be endable by the plain signal; the server's own handler is not its.
        _signal.signal(_signal.SIGTERM, _signal.SIG_DFL)
        self._poll = select.poll()
        self._poll.register(control.fileno(), select.POLLIN)
        self._poll.register(self._wakeup, select.POLLIN)

    def serve(self, command: dict[str, Any] | None, descriptors: list[int]) -> None:
        """Run commands until one leaves processes behind or the server is gone."""
        while True:
            if command is None:
                received = self._wait_for_command()
                if received is None:
                    return
                command, descriptors = received
            if not self._run(command, descriptors):
                self._hold()
                return
            command = None

    def _wait_for_command(self) -> tuple[dict[str, Any], list[int]] | None:
        while True:
            message, ancillary, _, _ = self._control.recvmsg(
                MAX_MESSAGE + 1, _socket.CMSG_SPACE(3 * 4), _socket.MSG_CMSG_CLOEXEC
            )
            if not message:
                return None
            if message[:1] == RUN:
                raw = b"".join(body for _, _, body in ancillary)
                fds = [int.from_bytes(raw[at : at + 4], sys.byteorder) for at in range(0, len(raw), 4)]
                command = wire.decode(message[1:])
                return command, fds if command["stdin"] else [-1, *fds]

    def _run(self, command: dict[str, Any], descriptors: list[int]) -> bool:
        problem, reported = posix.pipe2(posix.O_CLOEXEC | posix.O_NONBLOCK)
        child, status, error = 0, 0, None
        try:
            if command["switch"] or command["pty"]:
                child = posix.fork()
                if child == 0:
                    _become(command, descriptors, reported)
            else:
                child, status = spawning.spawn(command, descriptors)
        except OSError as raised:
            error = {"errno": raised.errno, "path": raised.filename or b"", "doing": "start"}
        posix.close(reported)
        for fd in set(descriptors) - {-1}:
            posix.close(fd)
        empty, left = True, 0
        if child:
            status, empty, left = self._watch(child)
            raw = posix.read(problem, 1 << 16) if posix.waitstatus_to_exitcode(status) == _SETUP_FAILED else b""
            error = wire.decode(raw) if raw else None
        posix.close(problem)
        self._report(status, empty, left, error)
        return empty

    def _hold(self) -> None:
        """Keep what was left until the server lets it go."""
        _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)
        try:
            while self._control.recv(64):
                pass
        except OSError:
            return

    def _report(self, status: int, empty: bool, left: int, error: dict[str, Any] | None) -> None:
        ended = {"status": status, "reusable": empty, "left": left, "error": error}
        try:
            self._control.send(ENDED + wire.encode(ended))
        except OSError:
            posix._exit(0)

    def _watch(self, child: int) -> tuple[int, bool, int]:
        """Wait for the command, or for the whole tree where it is to be killed."""
        status: int | None = None
        kill_at: float | None = None
        give_up_at = 0.0
        while True:
            status, empty = _reap(child, status)
            if empty and status is not None:
                return status, True, 0
            if kill_at is None:
                if status is not None:
                    return status, False, 0
                timeout: float = -1
            else:
                now = time.monotonic()
                timeout = max(0.0, kill_at - now) * 1000 + 1
                if now >= kill_at:
                    killed = processes.kill_all(posix.getpid())
                    timeout = _SWEEP_MS
                    if now >= give_up_at:
                        return 9 if status is None else status, False, killed
            for fd, _ in self._poll.poll(timeout):
                if fd == self._wakeup:
                    posix.read(self._wakeup, 512)
                    continue
                grace = self._read_kill()
                if grace is not None and kill_at is None:
                    processes.terminate(processes.living(posix.getpid()))
                    kill_at = time.monotonic() + grace
                    give_up_at = kill_at + GIVE_UP_S
                elif grace is not None and kill_at is not None:
                    kill_at = min(kill_at, time.monotonic() + grace)

    def _read_kill(self) -> float | None:
        try:
            message = self._control.recv(64)
        except OSError:
            message = b""
        if not message:
            # The server is gone: nothing may outlive it.
            self._poll.unregister(self._control.fileno())
            return 0.0
        return float(wire.decode(message[1:])) if message[:1] == KILL else None


def _reap(child: int, status: int | None) -> tuple[int | None, bool]:
    while True:
        try:
            pid, ended = posix.waitpid(-1, posix.WNOHANG)
        except ChildProcessError:
            return status, True
        if pid == 0:
            return status, False
        if pid == child:
            status = ended


def _become(command: dict[str, Any], descriptors: list[int], reported: int) -> None:
    """In the forked child: turn into the command. Never returns."""
    doing = "start"
    code = _SETUP_FAILED
    try:
        _signal.set_wakeup_fd(-1)
        for number in spawning.DEFAULTED:
            _signal.signal(number, _signal.SIG_DFL)
        posix.setsid()
        _install(descriptors, terminal=command["pty"])
        try:
            posix.chdir(command["cwd"])
            late = False
        except PermissionError:
            # It may be one that only the user can enter.
            late = True
        doing = "user"
        if command["switch"]:
            posix.setgroups(command["groups"])
            posix.setgid(command["gid"])
            posix.setuid(command["uid"])
        if late:
            posix.chdir(command["cwd"])
        doing = "start"
        argv, env = command["argv"], command["env"]
        _, reason = spawning.first(command["programs"], lambda program: posix.execve(program, argv, env))
        code = spawning.refuse(2, argv[0], reason)
    except OSError as error:
        report = {"errno": error.errno, "path": error.filename or b"", "doing": doing}
        posix.write(reported, wire.encode(report))
    finally:
        posix._exit(code)


def _install(descriptors: list[int], *, terminal: bool) -> None:
    stdin, stdout, stderr = descriptors
    if terminal:
        import fcntl
        import termios

        fcntl.ioctl(stdout, termios.TIOCSCTTY, 0)
        stdin = stdout
    elif stdin < 0:
        stdin = spawning.open_nothing()
    # None of these is 0, 1 or 2: the server keeps those open.
    posix.dup2(stdin, 0)
    posix.dup2(stdout, 1)
    posix.dup2(stderr, 2)
