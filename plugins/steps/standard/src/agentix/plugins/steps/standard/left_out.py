"""What of a tree is not taken, and that it was told."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agentix.api import WalkEntry, walk


@dataclass
class LeftOut:
    """What was no plain file and no directory."""

    names: list[str] = field(default_factory=list)
    total: int = 0

    def add(self, entry: WalkEntry) -> None:
        """One more; the first few are named."""
        self.total += 1
        if len(self.names) < 5:
            self.names.append(os.fsdecode(entry.name).encode("utf-8", "backslashreplace").decode())

    def __str__(self) -> str:
        more = self.total - len(self.names)
        return ", ".join(map(repr, self.names)) + (f" and {more} more" if more else "")


def files_and_directories(
    top: Path, *, left_out: LeftOut, wanted: Callable[[WalkEntry], bool] | None = None
) -> Iterator[WalkEntry]:
    """What `walk` finds, without links, pipes, sockets and devices, which are told."""
    for entry in walk(top, wanted=wanted):
        if entry.kind in ("file", "directory"):
            yield entry
        else:
            left_out.add(entry)
