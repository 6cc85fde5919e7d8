"""The log of a build: a file that grows while it runs, and its end for an error's message."""

from __future__ import annotations

from pathlib import Path
from typing import IO

_TAIL = 4000


class BuildLog:
    """What one build says.

    Args:
        path: Where it is kept; what an earlier build wrote there is replaced.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ran = False
        """Whether a command of the Dockerfile was the last thing under way."""
        self._tail = ""
        self._file: IO[str] | None = None
        self._problem: str | None = None

    def begin(self) -> None:
        """Start with nothing, also where it was begun before."""
        self.close()
        self.ran, self._tail = False, ""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("w", encoding="utf-8", errors="replace")
        except OSError as error:
            self._problem = error.strerror or str(error)

    def add(self, line: str) -> None:
        """One more line, or a piece of one."""
        self._tail = (self._tail + line)[-_TAIL:]
        if self._file is not None:
            try:
                self._file.write(line)
            except OSError as error:
                self._problem = error.strerror or str(error)
                self._file = None

    def close(self) -> None:
        """Write what is still to be written."""
        if self._file is not None:
            file, self._file = self._file, None
            try:
                file.close()
            except OSError as error:
                self._problem = error.strerror or str(error)

    @property
    def tail(self) -> str:
        """Its end."""
        return self._tail.rstrip()

    @property
    def place(self) -> str:
        """Where it is, in words."""
        if self._problem is not None:
            return f"the log could not be kept in {self.path}: {self._problem}"
        return f"the whole log is in {self.path}"
