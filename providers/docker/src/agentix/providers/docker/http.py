"""One HTTP/1.1 connection to the engine: plain requests, bodies that stream, and connections that are taken over."""

from __future__ import annotations

import select
import socket
from collections.abc import AsyncIterable, AsyncIterator, Mapping

import anyio
import h11
from anyio.abc import ByteStream

_RECEIVE = 1 << 16

Body = bytes | AsyncIterable[bytes]


class ProtocolError(Exception):
    """The engine sent something that is not HTTP, or hung up in the middle."""


class HttpConnection:
    """A connection that carries one request at a time.

    Args:
        stream: The stream, which the connection owns from now on.
        raw: The socket that carries it.
    """

    def __init__(self, stream: ByteStream, raw: socket.socket) -> None:
        self.stream = stream
        self._raw = raw
        self.used = False
        """Whether a request was answered on it."""
        self._state = h11.Connection(h11.CLIENT)

    async def request(
        self, method: str, target: str, *, headers: Mapping[str, str], body: Body
    ) -> tuple[int, dict[str, str]]:
        """Send a request.

        Returns:
            Status and headers of the answer; 101 where the connection was taken over.

        Raises:
            ProtocolError: The engine hung up, or does not speak HTTP.
        """
        sized = {"Content-Length": str(len(body))} if isinstance(body, bytes) else {"Transfer-Encoding": "chunked"}
        fields = {"Host": "engine", "User-Agent": "agentix", **sized, **headers}
        try:
            head = self._state.send(h11.Request(method=method, target=target, headers=[*fields.items()]))
            if isinstance(body, bytes):
                await self._send(head, h11.Data(data=body), h11.EndOfMessage())
            else:
                await self._send(head)
                async for piece in body:
                    await self._send(b"", h11.Data(data=piece))
                await self._send(b"", h11.EndOfMessage())
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            # It may have answered before it hung up.
            if self._state.our_state is h11.IDLE:
                raise ProtocolError("it hung up") from None
        event = await self._next()
        if not isinstance(event, h11.Response | h11.InformationalResponse):
            raise ProtocolError(f"{type(event).__name__} came where an answer should")
        return event.status_code, {name.decode(): value.decode("latin-1") for name, value in event.headers}

    async def body(self) -> AsyncIterator[bytes]:
        """The pieces of the answer's body; the connection can be used again after the last one."""
        while not isinstance(event := await self._next(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                yield bytes(event.data)
        self.used = True

    def rest(self) -> bytes:
        """What came after the answer on a connection that was taken over."""
        return bytes(self._state.trailing_data[0])

    def renew(self) -> bool:
        """Make it ready for another request, where it can carry one."""
        try:
            self._state.start_next_cycle()
        except h11.LocalProtocolError:
            return False
        return True

    def is_silent(self) -> bool:
        """Whether the engine has said nothing unasked: what it says between requests is that it hangs up."""
        poll = select.poll()
        poll.register(self._raw, select.POLLIN)
        return not poll.poll(0)

    async def aclose(self) -> None:
        """Hang up."""
        await anyio.aclose_forcefully(self.stream)

    async def _send(self, data: bytes | None, *events: h11.Event) -> None:
        pieces = [data or b"", *(self._state.send(event) or b"" for event in events)]
        if joined := b"".join(pieces):
            await self.stream.send(joined)

    async def _next(self) -> h11.Event:
        while True:
            try:
                event = self._state.next_event()
                if event is h11.NEED_DATA:
                    self._state.receive_data(await self._received())
                elif event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                    raise ProtocolError("it hung up")
                elif isinstance(event, h11.InformationalResponse) and event.status_code != 101:
                    continue
                else:
                    assert isinstance(event, h11.Event)
                    return event
            except h11.RemoteProtocolError as error:
                raise ProtocolError(f"its answer is not HTTP or is torn: {error}") from error

    async def _received(self) -> bytes:
        try:
            return await self.stream.receive(_RECEIVE)
        except anyio.EndOfStream:
            return b""
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise ProtocolError("it hung up") from error
