"""The server's side of its supervisors: one is always forked ahead, and those that end clean are used again."""

from __future__ import annotations

import _socket
import posix
import select
import sys

from agentix.runtime import supervisor, wire
from agentix.runtime.direct import ended_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from agentix.runtime.command import Command
    from agentix.runtime.server import Server

_KEPT = 4
_KILLED = 9


class Handle:
    """One supervisor."""

    def __init__(self, pid: int, socket: _socket.socket) -> None:
        self.pid = pid
        self.socket = socket
        self.command: Command | None = None

    def kill(self, grace_s: float) -> None:
        """Have it end the tree of its command."""
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
        self._held: list[Handle] = []
        self._idle: list[Handle] = []
        self._by_pid: dict[int, Handle] = {}

    @property
    def pids(self) -> set[int]:
        """Every supervisor's pid."""
        return set(self._by_pid)

    def fork_ahead(self) -> None:
        """Have one waiting."""
        if not self._idle:
            try:
                self._idle.append(self._fork(None, ()))
            except OSError:
                # Not even the next command may need it; that one will say so if it does.
                return

    def let_go(self) -> None:
        """Take over what was kept from the server for as long as it ran a command by itself."""
        while self._held:
            self._unwatch(self._held.pop())

    def start(self, command: Command, spec: dict[str, Any], descriptors: Sequence[int]) -> Handle:
        """Run a command under a supervisor.

        Args:
            command: Told when the process has ended.
            spec: The command as the supervisor takes it.
            descriptors: Its stdin or -1, stdout and stderr.
        """
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
        return handle

    def _lives(self, handle: Handle) -> bool:
        """Whether a waiting supervisor is still there; anything that may signal it can have killed it."""
        pid, status = posix.waitpid(handle.pid, posix.WNOHANG)
        if pid:
            self.reaped(pid, status)
        return not pid

    def _fork(self, spec: dict[str, Any] | None, descriptors: Sequence[int]) -> Handle:
        with self._server.exposure:
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
        if not ended["reusable"]:
            self._server.commands.share()
        if self._server.commands.is_direct and not ended["reusable"]:
            self._held.append(handle)
        else:
            self._unwatch(handle)

    def reaped(self, pid: int, status: int) -> None:
        """A child of the server ended; where it was a supervisor with a command, that is the command's end."""
        handle = self._by_pid.get(pid)
        if handle is None:
            return
        if handle.command is not None:
            self._readable(handle)
        if handle in self._idle:
            self._idle.remove(handle)
            self._server.soon(self._server.commands.fork_ahead)
        self._by_pid.pop(pid, None)
        self._unwatch(handle)
        if handle.command is not None:
            self._server.commands.share()
            handle.command.ended(ended_with(status if posix.WIFSIGNALED(status) else _KILLED, reusable=False))
            handle.command = None

    def _unwatch(self, handle: Handle) -> None:
        """Let a supervisor go: it ends by itself when its socket closes."""
        if handle.socket.fileno() >= 0:
            self._server.unwatch(handle.socket.fileno())
            handle.socket.close()
