"""What is below a directory, in an order that no file system decides, as bytes of which any name consists."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO


@dataclass(frozen=True, slots=True)
class Entry:
    """A plain file or a directory."""

    name: bytes
    """Relative to the top, with `/` between its parts."""
    directory: bool
    executable: bool = False
    size: int = 0
    """Bytes of a file, when it was found."""


@dataclass
class LeftOut:
    """What was no plain file and no directory, or was not wanted."""

    names: list[str] = field(default_factory=list)
    total: int = 0

    def add(self, name: bytes) -> None:
        """One more; the first few are named."""
        self.total += 1
        if len(self.names) < 5:
            self.names.append(os.fsdecode(name).encode("utf-8", "backslashreplace").decode())

    def __str__(self) -> str:
        more = self.total - len(self.names)
        return ", ".join(map(repr, self.names)) + (f" and {more} more" if more else "")


def entries(top: Path, *, left_out: LeftOut, wanted: Callable[[bytes], bool] = lambda name: True) -> Iterator[Entry]:
    """Everything below a directory, each directory before what is in it, the names in the order of their bytes.

    Args:
        top: The directory. Links in it are not followed.
        left_out: Is told of links, pipes, sockets and devices.
        wanted: Whether a name, relative to the top, is of interest at all.

    Raises:
        OSError: A directory cannot be read.
    """
    root = os.fsencode(top)
    below = [iter([b""])]
    while below:
        name = next(below[-1], None)
        if name is None:
            below.pop()
            continue
        if name:
            about = os.lstat(os.path.join(root, name))  # noqa: PTH118
            if stat.S_ISREG(about.st_mode):
                yield Entry(name, directory=False, executable=bool(about.st_mode & stat.S_IXUSR), size=about.st_size)
                continue
            if not stat.S_ISDIR(about.st_mode):
                left_out.add(name)
                continue
            yield Entry(name, directory=True)
        prefix = name + b"/" if name else b""
        listed = sorted(prefix + inner for inner in os.listdir(os.path.join(root, name)))  # noqa: PTH118, PTH208
        below.append(iter([inner for inner in listed if wanted(inner)]))


def opened(top: Path, name: bytes) -> BinaryIO:
    """Open a plain file that was found, without buffering.

    Raises:
        OSError: It cannot be read, or is something else by now.
    """
    path = os.path.join(os.fsencode(top), name)  # noqa: PTH118
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(f"{os.fsdecode(path)!r} is no plain file any more")
    return os.fdopen(file, "rb", buffering=0)
