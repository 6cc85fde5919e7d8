"""A copy of one file without secrets."""

from __future__ import annotations

import os
import shutil
import stat
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING
from uuid import uuid4

from agentix.redaction.blocks import BLOCK, piped
from agentix.redaction.containers import UNREADABLE, Inside
from agentix.redaction.opening import opened
from agentix.redaction.results import RedactionResult
from agentix.redaction.sorts import HEAD, is_binary

if TYPE_CHECKING:
    from agentix.redaction.redactor import Redactor


class NotText(Exception):
    """It is no text after all."""


def redacted_file(redactor: Redactor, source: Path, target: Path, *, name: str) -> RedactionResult:
    """A copy of a file; see `Redactor.file`."""
    shown = redactor.text(name)
    if what := not_a_file(source.lstat().st_mode):
        return RedactionResult(left_out={shown: what})
    temp = target.with_name(f".{uuid4().hex}.tmp")
    try:
        with opened(source) as file, temp.open("xb") as copy:
            about = os.fstat(file.fileno())
            if what := not_a_file(about.st_mode):
                return RedactionResult(left_out={shown: what})
            reason, counts = _copied(redactor, file, copy, name)
            os.fchmod(copy.fileno(), 0o755 if about.st_mode & 0o111 else 0o644)
        if reason is not None:
            return RedactionResult(refused={shown: reason})
        size = temp.stat().st_size
        temp.replace(target)
    finally:
        with suppress(FileNotFoundError):
            temp.unlink()
    return RedactionResult(counts=dict(counts), files=1, bytes=size)


def not_a_file(mode: int) -> str | None:
    """What something is that is no plain file."""
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISLNK(mode):
        return "link"
    if stat.S_ISFIFO(mode):
        return "pipe"
    if stat.S_ISDIR(mode):
        return "directory"
    return "socket" if stat.S_ISSOCK(mode) else "device"


def _copied(redactor: Redactor, file: IO[bytes], copy: IO[bytes], name: str) -> tuple[str | None, Counter[str]]:
    head = file.read(HEAD)
    file.seek(0)
    counts: Counter[str] = Counter()
    if not is_binary(head):
        with suppress(NotText):
            taken_out = redactor.filter(ips=redactor.ips_in(name), counts=counts)
            for piece in piped(file, taken_out):
                if b"\0" in piece:
                    raise NotText
                copy.write(piece)
            return None, counts
        file.seek(0)
        copy.seek(0)
        copy.truncate()
    shutil.copyfileobj(file, copy, BLOCK)
    copy.flush()
    return _refused(redactor, copy), Counter()


def _refused(redactor: Redactor, copy: IO[bytes]) -> str | None:
    """Why the copy of a binary file may not be published."""
    with opened(Path(copy.name)) as file:
        for form, where in Inside(redactor.secrets, size=os.fstat(file.fileno()).st_size).hits(file):
            if form == UNREADABLE:
                return f"it cannot be looked into: {where}"
            return f"no text, and it holds a known value ({form}, {where})"
    return None
