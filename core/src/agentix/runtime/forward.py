"""Carries connections to a port of the sandbox's loopback to the host.

A listener is a call, and so is each connection: the host asks for the next one, and gets it when somebody connects.
So there are never more connections than the host has asked for; whoever comes above that waits in the kernel.
"""

from __future__ import annotations

import _socket
import select
from _collections import deque  # type: ignore[import-not-found]

from agentix.runtime import wire
from agentix.runtime.call import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agentix.runtime.server import Server

EVENTS = 3
"""The channel of what happens to a connection, a byte each."""

OPENED, INPUT_ENDED, OUTPUT_ENDED = b"o", b"i", b"e"
"""Somebody has connected; it has all that the host sent, and the end of it; it will send no more itself."""

LOOPBACK = "127.0.0.1"
_BACKLOG = 128
_RETRY_S = 0.05
_NO_LINGER = (1).to_bytes(4, "little") + bytes(4)


def start(server: Server, number: int, method: str, arguments: dict[str, Any]) -> Call:
    """Make the call for `forward` or `accept`.

    Raises:
        OSError: The port cannot be had, or the listener is none.
    """
    if method == "forward":
        return Listener(server, number, arguments["port"])
    listener = server.calls.get(arguments["listener"])
    if not isinstance(listener, Listener):
        raise BrokenPipeError(32, "the listener is closed")
    return Accepted(server, number, listener)


class Listener(Call):
    """A port that is open until the host cancels the call.

    Args:
        server: The server it came to.
        id: The host's number for it.
        port: The port, or 0 for any that is free.
    """

    def __init__(self, server: Server, id: int, port: int) -> None:
        super().__init__(server, id)
        self._waiting: deque[Accepted] = deque()
        self._watched = False
        self._socket = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        try:
            self._socket.setblocking(False)
            self._socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
            self._socket.bind((LOOPBACK, port))
            self._socket.listen(_BACKLOG)
        except BaseException:
            self._socket.close()
            raise
        self.send(wire.PLAIN, wire.encode(self._socket.getsockname()[1]))

    def wait(self, call: Accepted) -> None:
        """Give the call the next connection."""
        self._waiting.append(call)
        self._watch(True)

    def leave(self, call: Accepted) -> None:
        """The call wants none any more."""
        if call in self._waiting:
            self._waiting.remove(call)
        self._watch(bool(self._waiting))

    def cancel(self) -> None:
        """Close the port; connections live on until their own calls end."""
        self._watch(False)
        self._socket.close()
        # Who tries again later finds nobody who waits.
        waiting, self._waiting = self._waiting, deque()
        for call in waiting:
            call.finish(None)
        self.finish(None)

    def _watch(self, wanted: bool) -> None:
        if wanted == self._watched:
            return
        self._watched = wanted
        if wanted:
            self.server.watch(self._socket.fileno(), select.EPOLLIN, self._accept)
        else:
            self.server.unwatch(self._socket.fileno())

    def _accept(self, events: int) -> None:
        while self._waiting:
            try:
                fd, _ = self._socket._accept()  # type: ignore[attr-defined]
            except BlockingIOError:
                break
            except OSError:
                # Somebody has hung up already, or there is no descriptor for now: not at once again.
                self._watch(False)
                self.server.later(_RETRY_S, lambda: self._watch(bool(self._waiting)))
                return
            self._waiting.popleft().connected(_socket.socket(fileno=fd))
        self._watch(bool(self._waiting))


class Accepted(Call):
    """One connection, from before it is made until both sides have ended it."""

    def __init__(self, server: Server, id: int, listener: Listener) -> None:
        super().__init__(server, id)
        self._listener = listener
        self._socket: _socket.socket | None = None
        self._pending = bytearray()
        self._input_ended = self._input_closed = self._output_ended = False
        self._reading = True
        self._mask = 0
        listener.wait(self)

    def connected(self, peer: _socket.socket) -> None:
        """Somebody has connected."""
        peer.setblocking(False)
        peer.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        self._socket = peer
        self.send(EVENTS, OPENED)
        self._write()

    def receive(self, payload: bytes) -> None:
        """Pass on what the host sends; how much can pile up is bounded by the window."""
        self._pending += payload
        self._write()

    def end_input(self) -> None:
        """Say so to whoever has connected, after all that came before."""
        self._input_ended = True
        self._write()

    def add_credit(self, amount: int) -> None:
        """Read on."""
        super().add_credit(amount)
        self.server.wake(self)

    def cancel(self) -> None:
        """Hang up: for whoever has connected it is a reset, unless all was said."""
        if self._socket is None:
            self._listener.leave(self)
            self.finish(None)
        else:
            self._end(reset=not self._input_closed)

    def step(self) -> None:
        """There is credit, or the host takes frames again."""
        if self._socket is not None and not self._reading:
            self._reading = True
            self._arm()

    def _happened(self, events: int) -> None:
        if events & select.EPOLLOUT:
            self._write()
        if events & ~select.EPOLLOUT:
            self._read()

    def _read(self) -> None:
        if self._socket is None or self._output_ended:
            return
        if self.credit <= 0 or self.server.congested:
            self._reading = False
            if self.credit > 0:
                self.server.wake(self)
            self._arm()
            return
        try:
            piece = self._socket.recv(min(wire.CHUNK, self.credit))
        except BlockingIOError:
            return
        except OSError:
            self._end(reset=True)
            return
        if piece:
            self.send(wire.PLAIN, piece)
            return
        self._output_ended = True
        self.send(EVENTS, OUTPUT_ENDED)
        self._arm()

    def _write(self) -> None:
        if self._socket is None or self._input_closed:
            return
        try:
            while self._pending:
                written = self._socket.send(self._pending[: 4 * wire.CHUNK])
                del self._pending[:written]
                self.consumed(written)
            if self._input_ended:
                self._socket.shutdown(_socket.SHUT_WR)
                self._input_closed = True
                self.send(EVENTS, INPUT_ENDED)
        except BlockingIOError:
            pass
        except OSError:
            self._end(reset=True)
            return
        self._arm()

    def _arm(self) -> None:
        if self._socket is None:
            return
        if self._output_ended and self._input_closed:
            self._end(reset=False)
            return
        mask = select.EPOLLIN if self._reading and not self._output_ended else 0
        mask |= select.EPOLLOUT if self._pending else 0
        if mask == self._mask:
            return
        # A hangup is told whatever is asked for, so what wants nothing is not watched at all.
        if not mask:
            self.server.unwatch(self._socket.fileno())
        elif not self._mask:
            self.server.watch(self._socket.fileno(), mask, self._happened)
        else:
            self.server.rearm(self._socket.fileno(), mask)
        self._mask = mask

    def _end(self, *, reset: bool) -> None:
        if self._socket is None:
            return
        if self._mask:
            self.server.unwatch(self._socket.fileno())
        if reset:
            self._socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_LINGER, _NO_LINGER)
        self._socket.close()
        self._socket = None
        self.finish({"reset": reset})
