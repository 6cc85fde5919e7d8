"""One HTTP/1.1 connection to the engine: plain requests, bodies that stream, and connections that are taken over."""

from __future__ import annotations

import select
import socket
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import IO

import anyio
import h11
from anyio.abc import ByteStream

_RECEIVE, _SEND = 1 << 16, 1 << 18

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
        self._ended = False

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

    def body(self) -> AsyncIterator[bytes]:
        """The pieces of the answer's body; the connection can be used again after the last one."""
        return _Pieces(self)

    async def next_piece(self) -> bytes | None:
        """The next piece of the answer's body, None after the last one."""
        event = await self._next()
        if isinstance(event, h11.Data):
            return bytes(event.data)
        self.used = True
        return None

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
                if self._ended:
                    raise ProtocolError("it hung up") from error
                raise ProtocolError(f"its answer is not HTTP: {error}") from error

    async def _received(self) -> bytes:
        try:
            return await self.stream.receive(_RECEIVE)
        except anyio.EndOfStream:
            self._ended = True
            return b""
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise ProtocolError("it hung up") from error


class _Pieces(AsyncIterator[bytes]):
    """No generator: one that is left in the middle would have to be closed."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection

    async def __anext__(self) -> bytes:
        piece = await self._connection.next_piece()
        if piece is None:
            raise StopAsyncIteration
        return piece


class FileBody(AsyncIterator[bytes]):
    """A file as the body of a request.

    Args:
        file: Read from its start.
    """

    def __init__(self, file: IO[bytes]) -> None:
        file.seek(0)
        self._file = file

    async def __anext__(self) -> bytes:
        piece = self._file.read(_SEND)
        if not piece:
            raise StopAsyncIteration
        return piece
