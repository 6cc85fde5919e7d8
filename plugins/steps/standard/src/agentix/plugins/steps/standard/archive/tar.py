"""Writes a tar of which every byte is decided by the names and the contents in it.

The GNU format keeps names of any bytes and any length, and files of any size. `tarfile` makes the headers; it would
keep every one of them in memory if it wrote the archive too.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Protocol

from agentix.api import WalkEntry, open_plain

TIME = 315_532_800
"""Of every member: the beginning of 1980, which is the first time that a zip can hold."""
_CHUNK = 1 << 20


class Sink(Protocol):
    """Where an archive is written to."""

    def write(self, data: bytes | memoryview, /) -> object:
        """Write all of it."""
        ...


class TarWriter:
    """Writes members one after the other; `close` ends the archive.

    Args:
        out: Where to.
        check: Called before every piece of work that takes a while; what it raises ends the writing.
    """

    def __init__(self, out: Sink, *, check: Callable[[], None]) -> None:
        self._out = out
        self._check = check
        self._buffer = memoryview(bytearray(_CHUNK))
        self._written = 0

    def add(self, name: bytes, entry: WalkEntry, *, top: Path) -> None:
        """A file or a directory.

        Args:
            name: What it is called in the archive.
            entry: What was found below `top`.
            top: Where it was found.

        Raises:
            OSError: It cannot be read, or has changed since it was found.
        """
        self._check()
        if entry.kind == "directory":
            self._write(header(name, 0, directory=True))
            return
        self._write(header(name, entry.size, executable=entry.executable))
        with open_plain(entry.below(top), buffering=0) as file:
            if not self._copied(file, entry.size):
                raise OSError(f"{os.fsdecode(entry.name)!r} changed while it was packed")

    def add_bytes(self, name: bytes, data: bytes) -> None:
        """A file with a content."""
        self._write(header(name, len(data)))
        self._write(data)
        self._write(bytes(-len(data) % tarfile.BLOCKSIZE))

    def begin(self, name: bytes, size: int) -> None:
        """The header of a file that is written piece by piece with `write`, and ended with `end`."""
        self._write(header(name, size))

    def write(self, data: bytes | memoryview) -> None:
        """A piece of the file that was begun."""
        self._write(data)

    def end(self) -> None:
        """Fill up the last block of the file that was begun."""
        self._write(bytes(-self._written % tarfile.BLOCKSIZE))

    def close(self) -> None:
        """Write the end, filled up to a whole record as tar does it."""
        self._write(bytes(2 * tarfile.BLOCKSIZE))
        self._write(bytes(-self._written % tarfile.RECORDSIZE))

    def _copied(self, file: FileIO, size: int) -> bool:
        left = size
        # One byte more is asked for than there should be, so that a file that has grown is noticed too.
        while got := file.readinto(self._buffer[: min(left + 1, _CHUNK)]):
            left -= got
            if left < 0:
                break
            self._write(self._buffer[:got])
            if left > _CHUNK:
                self._check()
        self._write(bytes(-size % tarfile.BLOCKSIZE))
        return left == 0

    def _write(self, data: bytes | memoryview) -> None:
        self._out.write(data)
        self._written += len(data)


def header(name: bytes, size: int, *, directory: bool = False, executable: bool = False) -> bytes:
    """The blocks that stand before the content of a member."""
    member = tarfile.TarInfo(name.decode("utf-8", "surrogateescape"))
    member.size, member.mtime = size, TIME
    member.mode = 0o755 if directory or executable else 0o644
    if directory:
        member.type = tarfile.DIRTYPE
    return member.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def length(members: list[tuple[bytes, WalkEntry]]) -> int:
    """Bytes of an archive of these members."""
    total = 2 * tarfile.BLOCKSIZE
    for name, entry in members:
        total += len(header(name, entry.size, directory=entry.kind == "directory"))
        total += -(-entry.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
    return -(-total // tarfile.RECORDSIZE) * tarfile.RECORDSIZE
