"""What is to be sent: how many files and bytes, and that rclone would take all of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentix.api import ShipRefused


@dataclass(frozen=True, kw_only=True)
class Size:
    """Of what is to be sent."""

    files: int
    bytes: int


def measure(source: Path) -> Size:
    """Count it.

    Raises:
        ShipRefused: It is not there, or has something in it that is no file, which rclone would follow or leave out.
    """
    files = total = 0
    for path in _files(source):
        about = path.lstat()
        if not stat.S_ISREG(about.st_mode):
            raise ShipRefused(f"{path} is no plain file, and so it is not sent: take it out, or send an archive of it")
        files += 1
        total += about.st_size
    return Size(files=files, bytes=total)


def _files(source: Path) -> Iterator[Path]:
    if not os.path.lexists(source):
        raise ShipRefused(f"there is nothing to send: {source} does not exist")
    if source.is_symlink() or not source.is_dir():
        yield source
        return
    for place, directories, names in os.walk(source, onerror=_raise):
        for name in names:
            yield Path(place, name)
        for name in directories:
            if (path := Path(place, name)).is_symlink():
                yield path


def _raise(error: OSError) -> None:
    raise ShipRefused(f"it cannot be read, and so it is not sent: {error}") from error
