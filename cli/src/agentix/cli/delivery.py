"""The standard output of a command, which remembers what did not arrive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO


class Delivery:
    """A stream that is the one below it, and remembers why something that was written did not arrive.

    That its reader has gone is no such reason: whoever reads the first lines of something wants no more.

    Args:
        stream: Where what is written goes.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost: str | None = None

    def write(self, text: str) -> int:
        """Write some text."""
        with self._watched():
            return self._stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        with self._watched():
            self._stream.writelines(lines)

    def flush(self) -> None:
        """Hand on what was written."""
        with self._watched():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        """Everything else is as the stream has it."""
        return getattr(self._stream, name)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            self.lost = self.lost or error.strerror or str(error)
            raise
