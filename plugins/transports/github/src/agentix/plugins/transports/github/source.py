"""What is to be sent: its files, and that GitHub will take them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentix.api import ShipRefused, WalkEntry, walk

LARGEST = 100 << 20
"""Bytes; GitHub refuses a push with a larger file in it."""
LARGE = 50 << 20
"""Bytes; GitHub warns of a larger file."""
MOST = 2 << 30
"""Bytes; GitHub refuses a larger push."""
_SHOWN = 5
_INSTEAD = "send an archive of it (step archive), split it, keep it in Git LFS, or send it with ship_hf or ship_rclone"


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """A file, and where it goes."""

    path: Path
    name: bytes
    """Relative to what is sent; for a single file its own name."""
    size: int
    executable: bool

    @property
    def mode(self) -> bytes:
        """As git has it."""
        return b"100755" if self.executable else b"100644"


def files_of(source: Path) -> tuple[SourceFile, ...]:
    """Every file of it, sorted by name.

    Raises:
        ShipRefused: It is not there, or has something in it that cannot be a file of a repository.
    """
    return tuple(sorted(_files(source), key=lambda file: file.name))


def refuse_large(files: Sequence[SourceFile]) -> None:
    """Before anything is done with them.

    Raises:
        ShipRefused: GitHub would refuse them.
    """
    large = [file for file in files if file.size > LARGEST]
    if large:
        shown = ", ".join(f"{show(file.name)} ({file.size / (1 << 20):.1f} MiB)" for file in large[:_SHOWN])
        more = f" and {len(large) - _SHOWN} more" if len(large) > _SHOWN else ""
        raise ShipRefused(f"GitHub takes no file over 100 MiB: {shown}{more}. Nothing was committed: {_INSTEAD}")


def show(name: bytes) -> str:
    """A name as it can be printed."""
    return repr(text)[1:-1] if not (text := os.fsdecode(name)).isprintable() else text


def _files(source: Path) -> Iterator[SourceFile]:
    try:
        for entry in walk(source):
            if entry.kind != "directory":
                yield _file(source, entry)
    except FileNotFoundError:
        raise ShipRefused(f"there is nothing to send: {source} does not exist") from None
    except OSError as error:
        raise ShipRefused(f"it cannot be read, and so it is not sent: {error}") from error


def _file(source: Path, entry: WalkEntry) -> SourceFile:
    path, name = entry.below(source), entry.name or os.fsencode(source.name)
    if entry.kind != "file":
        raise ShipRefused(f"{path} is no plain file, and so it is not sent: take it out, or send an archive of it")
    if any(part.lower() == b".git" for part in name.split(b"/")):
        raise ShipRefused(f"git takes no file below a directory named .git: {show(name)}: send an archive of it")
    return SourceFile(path=path, name=name, size=entry.size, executable=entry.executable)
