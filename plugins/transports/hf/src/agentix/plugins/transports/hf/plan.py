"""What would go, and what of it the hub would not take."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentix.api import WalkEntry, walk
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
    items = list(_items(source, breaches)) if os.path.lexists(source) else []
    if not os.path.lexists(source):
        breaches.append(f"{source.name} is neither a file nor a directory")
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


def _items(source: Path, breaches: list[str]) -> Iterator[Item]:
    def wanted(entry: WalkEntry) -> bool:
        name = entry.name.rpartition(b"/")[2].decode("utf-8", "replace")
        if entry.kind != "directory" or name not in NO_FOLDERS:
            return True
        breaches.append(f"{entry.shown}: the hub takes nothing below a folder {name}; ship an archive of it")
        return False

    def unread(error: OSError) -> None:
        breaches.append(f"{os.fsdecode(error.filename)} cannot be read: {error.strerror}")

    for entry in walk(source, wanted=wanted, unreadable=unread):
        name = os.fsdecode(entry.name) or source.name
        if entry.kind == "file" and name.isprintable():
            yield Item(path=name, bytes=entry.size)
        elif entry.kind == "file":
            breaches.append(f"{name!r}: the hub takes no such name; ship an archive of it")
        elif entry.kind != "directory":
            breaches.append(f"{name!r} is neither a file nor a directory")


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
