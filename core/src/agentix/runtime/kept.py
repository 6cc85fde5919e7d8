"""Output of which only the head and the tail are kept when it grows over a limit."""

from __future__ import annotations


class Kept:
    """The first and the last bytes of a stream, together at most `limit`.

    Args:
        limit: In bytes; up to it everything is kept.
    """

    def __init__(self, limit: int) -> None:
        self._head_size = limit - limit // 2
        self._tail_size = limit // 2
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, piece: bytes) -> None:
        """Take the next piece of the stream."""
        room = self._head_size - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        if piece:
            self._tail += piece
            if len(self._tail) > 2 * self._tail_size + (1 << 16):
                self._trim()

    def _trim(self) -> None:
        del self._tail[: len(self._tail) - self._tail_size]

    def value(self) -> bytes:
        """Head and tail, one after the other."""
        if len(self._tail) > self._tail_size:
            self._trim()
        return bytes(self._head + self._tail)
