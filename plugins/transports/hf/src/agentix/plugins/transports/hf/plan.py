"""What would go, and what of it the hub would not take."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentix.plugins.transports.hf.inputs import NO_FOLDERS

MAX_ENTRIES = 10_000
"""Files and folders in one folder: a limit of the hub (https://huggingface.co/docs/hub/storage-limits)."""
MAX_FILES = 100_000
"""Files of one repository that the hub asks not to exceed (same page)."""
MAX_FILE_BYTES = 50 * 1000**3
"""Of one file that goes as a git LFS object, which is the way taken here."""
_PART_FILES = 1_000
"""Files of one commit; `hf` goes no higher by itself either."""
_PART_BYTES = 100 * 1000**2
"""Of files that may travel inside of the commit's request, in base64."""
_PART_LARGE = 100
"""Large files of one commit, each of which the hub checks on its own."""
_LARGE = 10 * 1000**2
_TOLD = 5


@dataclass(frozen=True, kw_only=True)
class Item:
    """One file."""

    path: str
    """Below the source, with `/`; the file's name where the source is one file."""
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that goes, in the order of names."""

    source: Path
    items: tuple[Item, ...]
    breaches: tuple[str, ...]
    """What the hub would not take, each with what to do about it."""

    @property
    def bytes(self) -> int:
        """Of all files."""
        return sum(item.bytes for item in self.items)


def plan(source: Path) -> Plan:
    """Look at a file or a directory, without reading what is in it."""
    breaches: list[str] = []
    if source.is_symlink() or not source.is_dir():
        items = [Item(path=source.name, bytes=source.lstat().st_size)] if _is_plain(source) else []
        breaches += [] if items else [f"{source.name} is neither a file nor a directory"]
    else:
        items = list(_walk(source, breaches))
    if not items and not breaches:
        breaches.append(f"there is no file in {source.name}: there is nothing to ship")
    breaches += _too_much(items)
    return Plan(source=source, items=tuple(sorted(items, key=lambda item: item.path)), breaches=tuple(breaches))


def parts(items: Sequence[Item]) -> list[tuple[Item, ...]]:
    """Cut what goes into as few commits as the hub can be expected to make in time."""
    found: list[tuple[Item, ...]] = []
    part: list[Item] = []
    small = large = 0
    for item in items:
        is_large = item.bytes > _LARGE
        full = large >= _PART_LARGE if is_large else bool(small) and small + item.bytes > _PART_BYTES
        if part and (full or len(part) >= _PART_FILES):
            found.append(tuple(part))
            part, small, large = [], 0, 0
        part.append(item)
        small, large = small + (0 if is_large else item.bytes), large + is_large
    return [*found, tuple(part)] if part else found


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _walk(source: Path, breaches: list[str]) -> Iterator[Item]:
    def unread(error: OSError) -> None:
        breaches.append(f"{error.filename} cannot be read: {error.strerror}")

    for place, folders, names in os.walk(source, onerror=unread):
        folder = Path(place).relative_to(source)
        if any(part in NO_FOLDERS for part in folder.parts):
            breaches.append(f"{folder}: the hub takes nothing below a folder {folder.name}; ship an archive of it")
            folders.clear()
            continue
        for name in [*names, *(name for name in folders if Path(place, name).is_symlink())]:
            path = Path(place, name)
            shown = (folder / name).as_posix()
            if not _is_plain(path):
                breaches.append(f"{shown!r} is neither a file nor a directory")
            elif not shown.isprintable():
                breaches.append(f"{shown!r}: the hub takes no such name; ship an archive of it")
            else:
                yield Item(path=shown, bytes=path.lstat().st_size)


def _too_much(items: Sequence[Item]) -> Iterator[str]:
    if len(items) > MAX_FILES:
        yield f"{len(items):,} files, and a repository takes {MAX_FILES:,}; ship archives, or a dataset, of them"
    entries: dict[str, set[str]] = {}
    for item in items:
        names = item.path.split("/")
        for depth, name in enumerate(names):
            entries.setdefault("/".join(names[:depth]), set()).add(name)
    for folder, count in Counter({folder: len(held) for folder, held in entries.items()}).most_common(_TOLD):
        if count > MAX_ENTRIES:
            yield (
                f"{count:,} entries in the folder {folder or '.'}, and a folder takes {MAX_ENTRIES:,}; spread them "
                "over folders, or ship archives of them"
            )
    for item in sorted(items, key=lambda item: -item.bytes)[:_TOLD]:
        if item.bytes > MAX_FILE_BYTES:
            yield f"{item.path} has {item.bytes:,} bytes, and a file takes {MAX_FILE_BYTES:,}; cut it into shards"
