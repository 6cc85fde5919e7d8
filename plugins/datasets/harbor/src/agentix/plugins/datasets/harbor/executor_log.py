"""What the Harbor CLI prints, on disk: bounded, and without the keys that it was given."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import IO

MASK = b"***"
_DRAWN = re.compile(r"[\u2500-\u259f\u2800-\u28ff]+|\x1b\[[0-9;?]*[A-Za-z]")
"""Tables, progress bars and colours."""
_RAISED = re.compile(r"^\W*(\w+(?:Error|Exception|Exit): )", re.MULTILINE)
_LARGEST = 16 << 20
_TAIL = 4096
_SHORTEST = 4
"""A value shorter than that is in too many texts to be told from them."""


class TrialLog:
    """A log file.

    Args:
        path: The file, written anew.
        secrets: Values that must not be in it.
    """

    def __init__(self, path: Path, *, secrets: Iterable[str]) -> None:
        self._path = path
        found = {secret.encode("utf-8", "surrogateescape") for secret in secrets if len(secret) >= _SHORTEST}
        self._secrets = sorted(found, key=len, reverse=True)
        self._held = max((len(secret) for secret in self._secrets), default=1) - 1
        self._waiting = b""
        self._end = b""
        self._room = _LARGEST
        self._file: IO[bytes] | None = None

    def __enter__(self) -> TrialLog:
        self._file = self._path.open("wb", buffering=0)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._file is not None
        self._put(self._waiting)
        self._waiting = b""
        self._file.close()

    @property
    def tail(self) -> str:
        """The end of it, on one line; of a traceback, what was raised."""
        text = (self._end + self._waiting).decode("utf-8", "replace")
        raised = list(_RAISED.finditer(text))
        if raised:
            text = text[raised[-1].start(1) :]
        return " ".join(_DRAWN.sub(" ", text).split())[-500:]

    def write(self, data: bytes) -> None:
        """Add what was printed."""
        data = self._waiting + data
        for secret in self._secrets:
            data = data.replace(secret, MASK)
        # The beginning of a secret may stand at the end.
        keep = max((size for size in range(1, self._held + 1) if self._begins(data[-size:])), default=0)
        self._waiting = data[len(data) - keep :] if keep else b""
        self._put(data[: len(data) - keep])

    def _begins(self, end: bytes) -> bool:
        return any(secret.startswith(end) for secret in self._secrets)

    def _put(self, data: bytes) -> None:
        assert self._file is not None
        self._end = (self._end + data)[-_TAIL:]
        if self._room > 0:
            self._file.write(data[: self._room])
            self._room -= len(data)
            if self._room <= 0:
                self._file.write(b"\n[the rest is left out]\n")


def without(text: str, secrets: Iterable[str]) -> str:
    """A text without these values."""
    for secret in sorted((secret for secret in secrets if len(secret) >= _SHORTEST), key=len, reverse=True):
        text = text.replace(secret, MASK.decode())
    return text
