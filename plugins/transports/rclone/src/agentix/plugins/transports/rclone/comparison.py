"""What `rclone check` has found."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from agentix.api import ExecResult

_DIFFERENT = re.compile(r"Failed to check\b.*: \d+ differences found\s*\Z")
_BY_SIZE = re.compile(r"(\d+) hashes could not be checked")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How many of the files that are to be sent are there, as they are here."""

    same: int = 0
    different: int = 0
    missing: int = 0
    unread: int = 0
    """Could not be compared."""
    by_size: int = 0
    """Of `same`, those of which only the size is known to be the same."""
    complete: bool = True
    """Whether nothing kept rclone from comparing; it exits with 1 for a difference and for an error alike."""

    @property
    def files(self) -> int:
        """How many were looked for."""
        return self.same + self.different + self.missing

    def __str__(self) -> str:
        """In words."""
        return f"{self.missing} missing, {self.different} different, {self.unread} could not be read"

    @classmethod
    def read(cls, report: Path, result: ExecResult) -> Comparison:
        """From what the call left: a line for each file, in which rclone writes a line break in a name as `␊`."""
        counts = dict.fromkeys(b"=*+!", 0)
        if report.exists():
            with report.open("rb") as lines:
                for line in lines:
                    if line[1:2] == b" " and line[0] in counts:
                        counts[line[0]] += 1
        found = _BY_SIZE.search(result.error_text)
        same, different, missing, unread = counts.values()
        return cls(
            same=same,
            different=different,
            missing=missing,
            unread=unread,
            by_size=int(found[1]) if found else 0,
            complete=result.ok or (result.exit_code == 1 and _DIFFERENT.search(result.error_text) is not None),
        )
