"""How the server has commands run: one at a time by itself where it can, all others under supervisors.

Where commands need them, one supervisor is always forked ahead, and those that end clean are used again.
"""

from __future__ import annotations

import posix
import select
import sys

from agentix.runtime import spawning, wire
from agentix.runtime.direct import Direct

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Sequence
    from typing import Any

    from agentix.runtime.command import Command
    from agentix.runtime.server import Server

_KEPT = 4
_AHEAD_S = 0.25
_KILLED = 9


class Handle:
    """One supervisor."""

    def __init__(self, pid: int, socket: _socket.socket) -> None:
        self.pid = pid
        self.socket = socket
        self.command: Command | None = None

    def kill(self, grace_s: float) -> None:
        """Have it end the tree of its command."""
        from agentix.runtime import supervisor

        try:
            self.socket.send(supervisor.KILL + wire.encode(grace_s))
        except OSError:
            return


class Supervisors:
    """All supervisors of one server.

    Args:
        server: The server.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        # What a command leaves comes to the server then, and nothing else does.
        self._may_be_direct = server.pid == 1
        self._direct: tuple[Direct, Command] | None = None
        self._held: list[Handle] = []
        self._idle: list[Handle] = []
        self._by_pid: dict[int, Handle] = {}
        self._planned: list[Any] | None = None

    @property
    def pids(self) -> set[int]:
        """Every supervisor's pid."""
        return set(self._by_pid)

    def fork_ahead(self) -> None:
        """Have one waiting, where the next command needs it."""
        self._planned = None
        if not self._idle and not self._is_free():
            try:
                self._idle.append(self._fork(None, ()))
            except OSError:
                # Not even the next command may need it; that one will say so if it does.
                return

    def start(
        self, command: Command, spec: dict[str, Any], descriptors: Sequence[int], *, lasting: bool = False
    ) -> Handle | Direct:
        """Run a command.

        Args:
            command: Told when the process has ended.
            spec: The command as the supervisor takes it.
            descriptors: Its stdin or -1, stdout and stderr.
            lasting: It goes on while others come and go.
        """
        if not lasting and not spec["switch"] and not spec["pty"] and self._is_free():
            direct = self._start_direct(command, spec, descriptors)
            if direct is not None:
                return direct
        return self._start_supervised(command, spec, descriptors)

    def _is_free(self) -> bool:
        return self._may_be_direct and self._direct is None

    def _start_direct(self, command: Command, spec: dict[str, Any], descriptors: Sequence[int]) -> Direct | None:
        try:
            pid, status = spawning.spawn(spec, descriptors, patient=False)
        except OSError:
            # A supervisor has the time to try again, and the words for what is wrong.
            return None
        direct = Direct(self._server, pid, apart=self._apart, over=self._direct_ended)
        self._direct = direct, command
        if not pid:
            # Whoever started it shall know of it first.
            self._server.soon(lambda: self._direct_ended(_ended(status, reusable=True)))
        else:
            self._plan_ahead()
        return direct

    def _apart(self) -> set[int]:
        return set(self._by_pid)

    def _direct_ended(self, ended: dict[str, Any]) -> None:
        if self._direct is None:
            return
        command = self._direct[1]
        self._direct = None
        self._may_be_direct = self._may_be_direct and ended["reusable"]
        while self._held:
            self._unwatch(self._held.pop())
        command.ended(ended)

    def share(self) -> None:
        """Have every command supervised from now on: there are other processes whose children come to the server."""
        self._may_be_direct = False

    def _start_supervised(self, command: Command, spec: dict[str, Any], descriptors: Sequence[int]) -> Handle:
        import _socket

        from agentix.runtime import supervisor

        message = supervisor.RUN + wire.encode(spec)
        handle = None
        while self._idle and len(message) <= supervisor.MAX_MESSAGE:
            handle = self._idle.pop()
            if not self._lives(handle):
                handle = None
                continue
            fds = b"".join(fd.to_bytes(4, sys.byteorder) for fd in descriptors if fd >= 0)
            try:
                handle.socket.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)])
                break
            except OSError:
                self._unwatch(handle)
                handle = None
        if handle is None:
            handle = self._fork(spec, descriptors)
        handle.command = command
        self._plan_ahead()
        return handle

    def _plan_ahead(self) -> None:
        if self._planned is None:
            # Not at once: a short command is over, or gives its own supervisor back, before another is needed.
            self._planned = self._server.later(_AHEAD_S, self.fork_ahead)

    def _lives(self, handle: Handle) -> bool:
        """Whether a waiting supervisor is still there; anything that may signal it can have killed it."""
        pid, status = posix.waitpid(handle.pid, posix.WNOHANG)
        if pid:
            self.reaped(pid, status)
        return not pid

    def _fork(self, spec: dict[str, Any] | None, descriptors: Sequence[int]) -> Handle:
        from agentix.runtime import supervisor

        pid, socket = supervisor.fork(spec, descriptors)
        handle = Handle(pid, socket)
        self._by_pid[pid] = handle
        self._server.watch(socket.fileno(), select.EPOLLIN, lambda events: self._readable(handle))
        return handle

    def _readable(self, handle: Handle) -> None:
        try:
            message = handle.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        from agentix.runtime import supervisor

        if message[:1] != supervisor.ENDED:
            # It is gone; `reaped` follows with the reason.
            self._unwatch(handle)
            return
        ended = wire.decode(message[1:])
        command, handle.command = handle.command, None
        if command is not None:
            command.ended(ended)
        if ended["reusable"] and len(self._idle) < _KEPT:
            self._idle.append(handle)
            return
        # What it holds comes to the server, where it must not be taken for what the other command has left.
        self._may_be_direct = self._may_be_direct and ended["reusable"]
        if self._direct is not None and not ended["reusable"]:
            self._held.append(handle)
        else:
            self._unwatch(handle)

    def reaped(self, pid: int, status: int) -> None:
        """A child of the server ended; where it was a supervisor with a command, that is the command's end."""
        if self._direct is not None:
            self._direct[0].reaped(pid, status)
        handle = self._by_pid.get(pid)
        if handle is None:
            return
        if handle.command is not None:
            self._readable(handle)
        if handle in self._idle:
            self._idle.remove(handle)
            self._server.soon(self.fork_ahead)
        self._by_pid.pop(pid, None)
        self._unwatch(handle)
        if handle.command is not None:
            self._may_be_direct = False
            handle.command.ended(_ended(status if posix.WIFSIGNALED(status) else _KILLED, reusable=False))
            handle.command = None

    def _unwatch(self, handle: Handle) -> None:
        """Let a supervisor go: it ends by itself when its socket closes."""
        if handle.socket.fileno() >= 0:
            self._server.unwatch(handle.socket.fileno())
            handle.socket.close()


def _ended(status: int, *, reusable: bool) -> dict[str, Any]:
    return {"status": status, "reusable": reusable, "left": 0, "error": None}
