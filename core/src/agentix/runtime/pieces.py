"""Pieces that have arrived one by one, as a file for `pickle` to read without putting them together first."""

from __future__ import annotations

from _collections import deque  # type: ignore[import-not-found]


class Pieces:
    """Reads them, and forgets each when it is read.

    Args:
        pieces: In order.
    """

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces: deque[memoryview] = deque(memoryview(piece) for piece in pieces)

    def readinto(self, buffer: memoryview) -> int:
        """Fill a buffer as far as there is something to fill it with."""
        view = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(view) and self._pieces:
            piece = self._pieces[0]
            taken = piece[: len(view) - filled]
            view[filled : filled + len(taken)] = taken
            filled += len(taken)
            if len(taken) < len(piece):
                self._pieces[0] = piece[len(taken) :]
            else:
                self._pieces.popleft()
        return filled

    def read(self, size: int) -> bytes:
        """Up to so many bytes."""
        buffer = bytearray(size)
        del buffer[self.readinto(memoryview(buffer)) :]
        return bytes(buffer)

    def readline(self) -> bytes:
        """Up to the end of a line; only protocols without frames ask for it."""
        line = bytearray()
        while (one := self.read(1)) not in (b"", b"\n"):
            line += one
        return bytes(line + one)
