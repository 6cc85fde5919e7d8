"""The server's end of the stream to the host: what waits to be sent, and what comes."""

from __future__ import annotations

import select
from _collections import deque  # type: ignore[import-not-found]

from agentix.runtime import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agentix.runtime.loop import Loop
    from agentix.runtime.resume import Kept
    from agentix.runtime.stream import Stream

CONGESTED = 1 << 19
"""With so many bytes waiting to be sent, nobody reads more from files and pipes."""

_RECEIVE, _RECEIVE_MORE = 1 << 16, 1 << 18
_BURST = 1 << 18


class Link:
    """The stream to the host, or none while it is lost.

    Args:
        loop: What watches it.
        dispatch: Called with each frame that comes.
        lost: Called when the stream has ended.
    """

    def __init__(self, loop: Loop, *, dispatch: Callable[[int, int, bytes], None], lost: Callable[[], None]) -> None:
        self.received = 0
        """How many bytes have come on all streams."""
        self.kept: Kept | None = None
        """What was sent and is not acknowledged, where another stream may follow this one."""
        self._most = 0
        self._acknowledged = 0
        self._every = 0
        self._loop = loop
        self._dispatch = dispatch
        self._lost = lost
        self._reader = wire.FrameReader(wire.FROM_HOST)
        self._room = _RECEIVE
        self._out: deque[bytes | bytearray] = deque()
        self._waiting = 0
        self._writing = False
        self._stream: Stream | None = None
        self._source = self._sink = -1

    @property
    def congested(self) -> bool:
        """Whether the host takes its frames more slowly than they come."""
        return self._waiting >= CONGESTED or (self.kept is not None and self.kept.size >= self._most)

    def attach(self, stream: Stream) -> None:
        """Go on with a stream, which the link owns from now on."""
        self._stream = stream
        self._source, self._sink = stream.source, stream.sink
        self._loop.watch(self._source, select.EPOLLIN, self._receive)

    def detach(self) -> None:
        """Hang up, and keep what waits."""
        stream, self._stream = self._stream, None
        if stream is not None:
            self._wait_to_write(False)
            self._loop.unwatch(self._source)
            stream.close()

    def close(self) -> None:
        """Hang up for good, when nothing is watched any more."""
        if self._stream is not None:
            self._stream.close()

    def keep(self) -> None:
        """Keep what is sent from now on, which has to be the first that is sent at all."""
        from agentix.runtime import resume

        self.kept = resume.Kept()
        self._most, self._every = resume.KEPT, resume.ACKNOWLEDGED_EVERY

    def go_on(self, stream: Stream, received: int) -> None:
        """Go on with another stream.

        Args:
            stream: The stream.
            received: How many bytes have reached the host on all those before.
        """
        self.detach()
        assert self.kept is not None
        again = self.kept.take_back(received)
        self._out.extendleft(reversed(again))
        self._waiting += sum(map(len, again))
        self._acknowledged = self.received
        self.attach(stream)

    def acknowledged(self, payload: bytes) -> None:
        """The host has so much of what was sent."""
        if self.kept is not None:
            self.kept.acknowledge(int.from_bytes(payload, "big"))

    def send(self, frame: bytes) -> None:
        """Send a frame after those that wait already."""
        self._out.append(frame)
        self._waiting += len(frame)

    def flush(self) -> None:
        """Send what there is, as far as the stream takes it."""
        if self._stream is None:
            return
        while self._out:
            burst = bytearray()
            while self._out and len(burst) < _BURST:
                burst += self._out.popleft()
            try:
                sent = self._stream.send(burst)
            except BlockingIOError:
                sent = 0
            except OSError:
                self._out.appendleft(burst)
                self._end()
                return
            self._waiting -= sent
            if self.kept is not None:
                self.kept.add(burst if sent == len(burst) else bytes(burst[:sent]))
            if sent < len(burst):
                self._out.appendleft(bytes(burst[sent:]))
                self._wait_to_write(True)
                return
        self._wait_to_write(False)

    def _wait_to_write(self, wanted: bool) -> None:
        if wanted == self._writing:
            return
        self._writing = wanted
        if self._sink == self._source:
            self._loop.rearm(self._source, select.EPOLLIN | select.EPOLLOUT if wanted else select.EPOLLIN)
        elif wanted:
            # Being woken is all that it takes: every turn ends with sending.
            self._loop.watch(self._sink, select.EPOLLOUT, lambda events: None)
        else:
            self._loop.unwatch(self._sink)

    def _receive(self, events: int) -> None:
        if not events & ~select.EPOLLOUT or self._stream is None:
            return
        try:
            received = self._stream.receive(self._room)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            self._end()
            return
        if len(received) == self._room:
            self._room = _RECEIVE_MORE
        self.received += len(received)
        for kind, number, payload in self._reader.feed(received):
            self._dispatch(kind, number, payload)
        if self._every and self.received - self._acknowledged >= self._every:
            self._acknowledged = self.received
            self.send(wire.ack(self.received))

    def _end(self) -> None:
        self.detach()
        self._lost()
