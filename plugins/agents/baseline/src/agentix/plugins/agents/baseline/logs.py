"""Keeps what a program prints in files, as it comes."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Self

_TAIL = 4096


class OutputFile:
    """One stream of a program: written to a file up to a limit, its end kept for messages.

    Args:
        directory: Where the file goes; `None` keeps only the end.
        name: Its name; a number is put in where there is such a file already.
        limit: Bytes that the file may have.
    """

    def __init__(self, directory: Path | None, name: str, *, limit: int) -> None:
        self._directory = directory
        self._name = name
        self._limit = limit
        self._file: BinaryIO | None = None
        self._end = b""
        self.path: Path | None = None
        self.size = 0
        """Bytes that were printed, kept or not."""

    def __enter__(self) -> Self:
        if self._directory is not None:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._file = self._create(self._directory)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def tail(self) -> str:
        """The end of what was printed."""
        return self._end.decode("utf-8", "replace").strip()

    @property
    def lost(self) -> int:
        """Bytes that the file does not have."""
        return max(0, self.size - self._limit) if self.path is not None else 0

    def write(self, data: bytes) -> None:
        """Keep a piece."""
        if self._file is not None:
            self._file.write(data[: max(0, self._limit - self.size)])
            self._file.flush()
        self.size += len(data)
        self._end = (self._end + data)[-_TAIL:]

    def _create(self, directory: Path) -> BinaryIO:
        stem, dot, suffix = self._name.partition(".")
        number = 1
        while True:
            path = directory / (self._name if number == 1 else f"{stem}-{number}{dot}{suffix}")
            try:
                file = path.open("xb")
            except FileExistsError:
                number += 1
            else:
                self.path = path
                return file
