"""What is below a directory, in an order that no file system decides, as bytes of which any name consists."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["file", "directory", "link", "pipe", "socket", "device"]


@dataclass(frozen=True, slots=True)
class WalkEntry:
    """Something that was found, as it was then."""

    name: bytes
    """Relative to the top, with `/` between its parts; empty for the top itself."""
    kind: Kind
    size: int = 0
    """Bytes of a file."""
    executable: bool = False
    """Whether a file's owner may run it."""
    mtime_ns: int = 0
    inode: int = 0

    @property
    def shown(self) -> str:
        """The name for people, whatever bytes it has."""
        text = os.fsdecode(self.name)
        return text if text.isprintable() else repr(text)[1:-1]

    def below(self, top: Path) -> Path:
        """Where it is."""
        return top / os.fsdecode(self.name)


def walk(
    top: Path,
    *,
    wanted: Callable[[WalkEntry], bool] | None = None,
    unreadable: Callable[[OSError], None] | None = None,
) -> Iterator[WalkEntry]:
    """Everything below a directory: each directory before what is in it, the names in the order of their bytes.

    Links are found and never followed. Where the top is no directory, it is all that is found.

    Args:
        top: Where to look.
        wanted: Whether something is of interest; what is below a directory that is not is not looked at.
        unreadable: Is told of directories that cannot be read, which otherwise are errors.

    Raises:
        OSError: The top is not there, or a directory cannot be read.
    """
    root = os.fsencode(top)
    first = _entry(b"", os.lstat(root))
    if first.kind != "directory":
        yield first
        return
    waiting = [iter(listed(root, unreadable=unreadable))]
    while waiting:
        found = next(waiting[-1], None)
        if found is None:
            waiting.pop()
        elif wanted is None or wanted(found):
            yield found
            if found.kind == "directory":
                waiting.append(iter(listed(root, found.name, unreadable=unreadable)))


def listed(root: bytes, place: bytes = b"", *, unreadable: Callable[[OSError], None] | None = None) -> list[WalkEntry]:
    """What is in one directory, in the order of `walk`.

    Args:
        root: The top.
        place: The directory, relative to the top.
        unreadable: As for `walk`.

    Raises:
        OSError: It cannot be read.
    """
    prefix = place + b"/" if place else b""
    try:
        with os.scandir(root + b"/" + place if place else root) as entries:
            found = [_entry(prefix + entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
    except OSError as error:
        if unreadable is None:
            raise
        unreadable(error)
        return []
    found.sort(key=lambda entry: entry.name)
    return found


def _entry(name: bytes, about: os.stat_result) -> WalkEntry:
    mode = about.st_mode
    if stat.S_ISREG(mode):
        return WalkEntry(name, "file", about.st_size, bool(mode & stat.S_IXUSR), about.st_mtime_ns, about.st_ino)
    return WalkEntry(name, kind_of(mode), 0, False, about.st_mtime_ns, about.st_ino)


def kind_of(mode: int) -> Kind:
    """What something is, by the mode that `lstat` has found."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    if stat.S_ISLNK(mode):
        return "link"
    if stat.S_ISFIFO(mode):
        return "pipe"
    return "socket" if stat.S_ISSOCK(mode) else "device"
