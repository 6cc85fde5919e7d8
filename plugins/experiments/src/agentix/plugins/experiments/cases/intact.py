"""Sees that a snapshot still holds what its hash says, without reading all of it before every trial."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from agentix.plugins.experiments.cases.snapshots import is_intact

if TYPE_CHECKING:
    from agentix.api import Case

_SETTLED_NS = 3_000_000_000
"""File systems tell times by ticks, of up to two seconds: a second write in the tick of the first shows nowhere."""


class Intact:
    """Remembers what the file system said of snapshots whose content was right.

    The kernel's change times cannot be set by who writes to a file, so content is hashed again only where one of them
    is another, and where one of them is so recent that another write need not have made it another.
    """

    def __init__(self) -> None:
        self._seen: dict[Path, bytes] = {}

    async def check(self, case: Case) -> bool:
        """Whether what would be run is what the case's hash says."""
        place = case.directory
        if place is None or case.sha256 is None:
            return True
        looked = time.time_ns()
        found = await anyio.to_thread.run_sync(_marks, place)
        if found is None:
            return False
        marks, changed = found
        if self._seen.get(place) == marks:
            return True
        if not await is_intact(case):
            return False
        if changed < looked - _SETTLED_NS:
            self._seen[place] = marks
        return True


def _marks(root: Path) -> tuple[bytes, int] | None:
    """What tells one state of a directory from another, and the last of its change times."""
    digest = hashlib.blake2b(digest_size=16)
    changed = 0
    waiting = [os.fsencode(root)]
    try:
        while waiting:
            directory = waiting.pop()
            for entry in sorted(os.scandir(directory), key=lambda e: e.name):
                found = entry.stat(follow_symlinks=False)
                changed = max(changed, found.st_ctime_ns)
                digest.update(entry.path + b"\0")
                digest.update(repr((found.st_ino, found.st_mode, found.st_size, found.st_ctime_ns)).encode())
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    except OSError:
        return None
    return digest.digest(), changed
