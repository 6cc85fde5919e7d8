"""A connected socket as a byte stream."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream


class SocketStream(ByteStream):
    """A stream over a socket that exists already, such as one end of a socket pair.

    anyio's own can be closed neither while a receive is pending nor right after one was cancelled without an error
    in asyncio's log; this one can.

    Args:
        raw: A connected stream socket, which the stream owns from now on.
    """

    def __init__(self, raw: socket.socket) -> None:
        raw.setblocking(False)
        self._raw = raw

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Receive what there is, at least one byte.

        Raises:
            EndOfStream: The other side closed it.
            ClosedResourceError: This side did.
            BrokenResourceError: It broke.
        """
        while True:
            await self._not_before(anyio.wait_readable)
            try:
                received = self._raw.recv(max_bytes)
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._broken() from error
            if not received:
                raise anyio.EndOfStream
            return received

    async def send(self, item: bytes) -> None:
        """Send all of it.

        Raises:
            ClosedResourceError: This side closed the stream.
            BrokenResourceError: The other side did.
        """
        await anyio.lowlevel.checkpoint_if_cancelled()
        view = memoryview(item)
        while view:
            try:
                view = view[self._raw.send(view) :]
            except BlockingIOError:
                await self._not_before(anyio.wait_writable)
            except OSError as error:
                raise self._broken() from error

    def send_nowait(self, item: bytes) -> int:
        """Send as much as there is room for; how many bytes that was.

        Raises:
            OSError: The stream is closed or broken.
        """
        try:
            return self._raw.send(item)
        except BlockingIOError:
            return 0

    async def send_eof(self) -> None:
        """Say that nothing more will be sent."""
        try:
            self._raw.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise self._broken() from error

    async def aclose(self) -> None:
        """Close it."""
        if self._raw.fileno() >= 0:
            anyio.notify_closing(self._raw)
            self._raw.close()
        await anyio.lowlevel.checkpoint()

    def _broken(self) -> Exception:
        return anyio.ClosedResourceError() if self._raw.fileno() < 0 else anyio.BrokenResourceError()

    async def _not_before(self, ready: Callable[[socket.socket], Awaitable[None]]) -> None:
        if self._raw.fileno() < 0:
            raise anyio.ClosedResourceError
        await ready(self._raw)
