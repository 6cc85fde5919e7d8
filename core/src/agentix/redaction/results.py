"""What came of a redaction, and what a scan found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class RedactionResult:
    """What was done to a file or to a tree. Paths are relative, with `/`, as the source has them; masked themselves."""

    counts: Mapping[str, int] = field(default_factory=dict)
    """How often each kind was taken out, such as `known_value`, `openai_key`, `ip`."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Files that may not be published and have no copy, with the reason."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """What is neither a file nor a directory, with what it is: `link`, `pipe`, `socket`, `device`."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """New places of files and directories whose names held something, by masked old ones."""
    files: int = 0
    """How many were copied."""
    bytes: int = 0
    """Size of the copies."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A known value that a scan found, or something that it cannot look into. It never holds the value."""

    path: str
    """Of the file, relative to what was scanned, with any value in it masked; `.` for the file that was scanned."""
    form: str
    """`plain`, `json`, `url`, `hex`, `base64`, `utf-16`, or `unreadable`."""
    where: str
    """`name`, `byte 1234`, `member a/b.txt, byte 12`; of something unreadable, why it is."""

    def __str__(self) -> str:
        return f"{self.path}: {self.form} ({self.where})"
