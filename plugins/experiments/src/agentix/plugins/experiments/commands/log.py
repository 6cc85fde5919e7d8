"""What a command writes, on disk: bounded, and without the secrets that it was given."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import IO

HEAD = TAIL = 4 << 20
"""Bytes of a log that are kept of its beginning and of its end."""

_SHORTEST = 4
"""A value shorter than that is in too many texts to be told from them."""
_MASK = b"***"


class Scrubber:
    """Takes known values out of a stream of bytes, also where a piece ends within one.

    `Secrets` finds every form of a value, and keeps kilobytes until it is sure; a log is read while it is written, so
    that here only what may be the beginning of a value itself is kept.
    """

    def __init__(self, secrets: Iterable[bytes]) -> None:
        found = {secret for secret in secrets if len(secret) >= _SHORTEST}
        # The longest first: one may be a part of another.
        self._secrets = sorted(found, key=len, reverse=True)
        self._waiting = b""

    def feed(self, data: bytes) -> bytes:
        """What is sure by now."""
        if not self._secrets:
            return data
        data = self._mask(self._waiting + data)
        keep = max((self._begun(data, secret) for secret in self._secrets), default=0)
        self._waiting = data[len(data) - keep :] if keep else b""
        return data[: len(data) - keep]

    def flush(self) -> bytes:
        """The rest, at the end."""
        data, self._waiting = self._waiting, b""
        return data

    def scrubbed(self, data: bytes) -> bytes:
        """The whole of a text at once."""
        return self._mask(data)

    def _mask(self, data: bytes) -> bytes:
        for secret in self._secrets:
            data = data.replace(secret, _MASK)
        return data

    @staticmethod
    def _begun(data: bytes, secret: bytes) -> int:
        """Length of the longest end of the data that the secret starts with."""
        end, first = data[-(len(secret) - 1) :], secret[:1]
        start = end.find(first)
        while start >= 0 and not secret.startswith(end[start:]):
            start = end.find(first, start + 1)
        return len(end) - start if start >= 0 else 0


class CommandLog:
    """A log with its beginning and its end, however much was written.

    Args:
        path: The file, which is written anew; `None` for none.
        hidden: Values that must not be in it.
    """

    def __init__(self, path: Path | None, *, hidden: Iterable[bytes] = ()) -> None:
        self._path = path
        self._scrubber = Scrubber(hidden)
        self._file: IO[bytes] | None = None
        self._room = HEAD
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._left_out = 0

    def __enter__(self) -> CommandLog:
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("wb", buffering=0)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is None:
            return
        with self._file:
            self._add(self._scrubber.flush())
            if self._left_out:
                self._file.write(b"\n[... %d bytes left out ...]\n" % self._left_out)
            for piece in self._tail:
                self._file.write(piece)

    def write(self, data: bytes) -> None:
        """Add what was written."""
        if self._file is not None:
            self._add(self._scrubber.feed(data))

    def _add(self, data: bytes) -> None:
        assert self._file is not None
        if self._room:
            head, data = data[: self._room], data[self._room :]
            self._file.write(head)
            self._room -= len(head)
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size > TAIL:
            first = self._tail.popleft()
            excess = min(self._tail_size - TAIL, len(first))
            if excess < len(first):
                self._tail.appendleft(first[excess:])
            self._tail_size -= excess
            self._left_out += excess
