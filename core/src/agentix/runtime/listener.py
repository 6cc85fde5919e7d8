"""Where the host finds the server again after its stream was lost: an abstract unix socket.

Its name belongs to the sandbox's network namespace, and everybody there may connect. Whoever does is let in only if it
runs as the server's user, was put into the sandbox from outside, and knows the secret. All others cost a moment.
"""

from __future__ import annotations

import _socket
import posix
import select

from agentix.runtime import processes, resume, wire
from agentix.runtime.stream import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agentix.runtime.server import Server

_BACKLOG = 128
_ACCEPTED_A_TURN = 16
_GUESTS = 8
_GUEST_S = 20.0
_SIGKILL = 9


class Listener:
    """The socket, and those who have not yet proved that they are the host.

    Args:
        server: The server.
        terms: `name` of the socket and `secret`, both from the host's hello.
    """

    def __init__(self, server: Server, terms: dict[str, Any]) -> None:
        self.bridge = 0
        """The pid of the process that carries the stream; 0 where none does."""
        self._server = server
        self._secret: bytes = terms["secret"]
        self._guests: dict[int, Guest] = {}
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self._socket.bind(b"\0" + terms["name"])
        self._socket.listen(_BACKLOG)
        server.watch(self._socket.fileno(), select.EPOLLIN, self._accept)

    def _accept(self, events: int) -> None:
        for _ in range(_ACCEPTED_A_TURN):
            try:
                fd, _ = self._socket._accept()  # type: ignore[attr-defined]
            except OSError:
                # Nobody is left, or went away meanwhile, or no descriptor is free: whoever waits is seen again.
                return
            connected = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, fd)
            pid = self._admitted(connected)
            if pid:
                self._welcome(connected, pid)
            else:
                connected.close()

    def _admitted(self, connected: _socket.socket) -> int:
        """The pid of who is connected, 0 for one that is not wanted."""
        try:
            peer = connected.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        except OSError:
            return 0
        # Three integers of 32 bits: pid, uid, gid.
        pid, uid = memoryview(peer).cast("i")[:2]
        if uid != posix.geteuid() or pid <= 0:
            return 0
        # What an engine puts into a sandbox has its parent outside; nothing that was started inside ever has.
        return 0 if self._server.pid == 1 and not _is_from_outside(pid) else pid

    def _welcome(self, connected: _socket.socket, pid: int) -> None:
        while len(self._guests) >= _GUESTS:
            next(iter(self._guests.values())).leave()
        guest = Guest(self, self._server, connected, pid)
        self._guests[guest.fd] = guest

    def forget(self, guest: Guest) -> None:
        """Somebody has left, or was let in."""
        self._guests.pop(guest.fd, None)

    def let_in(self, guest: Guest, said: bytes) -> None:
        """Go on with somebody as the host, where the answer is right.

        Raises:
            Malformed: It is not.
            OSError: The connection broke.
        """
        link = self._server.link
        received = resume.received_by_host(self._secret, guest.challenge, said)
        assert link.kept is not None
        # Only a number that can be right may end the stream that there is.
        if received < link.kept.acknowledged:
            raise wire.Malformed("it has less than it had")
        link.kept.acknowledge(received)
        nonce = said[: resume.NONCE_BYTES]
        guest.socket.send(resume.confirmation(self._secret, guest.challenge, nonce, link.received))
        superseded, self.bridge = self.bridge, guest.pid
        self._server.unwatch(guest.fd)
        self._server.found(Stream(guest.socket.detach()), received)
        if superseded and superseded != guest.pid and _is_from_outside(superseded):
            # A bridge that is stopped or stuck does not see that it was hung up on.
            processes.send((superseded,), _SIGKILL)


class Guest:
    """Somebody who has connected and has not yet proved anything."""

    def __init__(self, listener: Listener, server: Server, connected: _socket.socket, pid: int) -> None:
        self.socket = connected
        self.fd = connected.fileno()
        self.pid = pid
        self.challenge = posix.urandom(resume.NONCE_BYTES)
        self._listener = listener
        self._server = server
        self._said = b""
        connected.setblocking(False)
        server.watch(self.fd, select.EPOLLIN, self._readable)
        self._timer = server.later(_GUEST_S, self.leave)
        try:
            connected.send(self.challenge)
        except OSError:
            # It is gone, which is seen at the next turn.
            return

    def leave(self) -> None:
        """Hang up."""
        self._listener.forget(self)
        self._server.forget(self._timer)
        self._server.unwatch(self.fd)
        self.socket.close()

    def _readable(self, events: int) -> None:
        try:
            said = self.socket.recv(resume.ANSWER_BYTES - len(self._said))
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if not said:
            self.leave()
            return
        self._said += said
        if len(self._said) < resume.ANSWER_BYTES:
            return
        try:
            self._listener.let_in(self, self._said)
        except (wire.Malformed, OSError):
            self.leave()
            return
        self._listener.forget(self)
        self._server.forget(self._timer)


def _is_from_outside(pid: int) -> bool:
    """Whether a process has no parent in this namespace; outside of one, nothing can be told apart."""
    try:
        fd = posix.open(f"/proc/{pid}/stat", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return False
    try:
        return posix.read(fd, 1024).rpartition(b")")[2].split(None, 2)[1] == b"0"
    except (OSError, IndexError):
        return False
    finally:
        posix.close(fd)
