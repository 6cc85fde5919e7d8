"""A container's stdin, stdout and stderr over one connection: stdout is the wire, stderr the log."""

from __future__ import annotations

import anyio
from anyio.abc import ByteStream

_HEAD = 8
_RECEIVE = 1 << 18
_LOG = 1 << 16
_OUT, _ERR = (0, 1), 2


class AttachedStream(ByteStream):
    """Cuts the engine's frames apart (Docker API, "Attach to a container", stream format).

    Args:
        stream: The connection, which it owns from now on.
        received: What has come on it already.
    """

    def __init__(self, stream: ByteStream, received: bytes = b"") -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._ready = bytearray()
        self._left = 0
        self._kind = _ERR
        self._log = bytearray()
        if received:
            self._feed(received)

    def follow(self, other: AttachedStream) -> None:
        """Take over what was written to the stderr of the stream before."""
        self._log[:0] = other._log

    @property
    def log(self) -> str:
        """The end of what was written to stderr."""
        return self._log.decode("utf-8", "replace")

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """The next piece of stdout.

        Raises:
            EndOfStream: The container ended, or the engine hung up.
            BrokenResourceError: The connection broke.
        """
        while not self._ready:
            self._feed(await self._stream.receive(_RECEIVE))
        piece = bytes(self._ready[:max_bytes])
        del self._ready[:max_bytes]
        return piece

    async def send(self, item: bytes) -> None:
        """Write to stdin."""
        await self._stream.send(item)

    async def send_eof(self) -> None:
        """Close stdin."""
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """Hang up."""
        await self._stream.aclose()

    def _feed(self, received: bytes) -> None:
        buffer = self._buffer
        buffer += received
        at = 0
        while True:
            if self._left:
                piece = buffer[at : at + self._left]
                if not piece:
                    break
                at += len(piece)
                self._left -= len(piece)
                self._keep(piece)
            elif len(buffer) - at >= _HEAD:
                self._kind = buffer[at]
                self._left = int.from_bytes(buffer[at + 4 : at + _HEAD], "big")
                at += _HEAD
                if self._kind not in (*_OUT, _ERR):
                    raise anyio.BrokenResourceError
            else:
                break
        del buffer[:at]

    def _keep(self, piece: bytearray) -> None:
        if self._kind != _ERR:
            self._ready += piece
            return
        self._log += piece
        if len(self._log) > _LOG:
            del self._log[: len(self._log) - _LOG // 2]
