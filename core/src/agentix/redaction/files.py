"""A copy of one file without secrets."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING
from uuid import uuid4

from agentix.files import kind_of, open_plain
from agentix.redaction.blocks import piped
from agentix.redaction.containers import UNREADABLE, Inside
from agentix.redaction.git_patches import BinaryParts
from agentix.redaction.holes import mostly_holes
from agentix.redaction.json_files import Broken, may_be_json, mended_copy, still_json
from agentix.redaction.pieces import BLOCK, Check, NotText, as_before, as_utf8, pieces, unchecked
from agentix.redaction.results import RedactionResult
from agentix.redaction.sorts import HEAD, encoding_of, is_binary

if TYPE_CHECKING:
    from agentix.redaction.redactor import Redactor


def redacted_file(
    redactor: Redactor, source: Path, target: Path, *, name: str, check: Check = unchecked
) -> RedactionResult:
    """A copy of a file; see `Redactor.file`.

    Args:
        redactor: Takes secrets out.
        source: The file.
        target: Where the copy goes.
        name: What to call it.
        check: Called often; what it raises ends the work.
    """
    shown = redactor.text(name)
    if (kind := kind_of(source.lstat().st_mode)) != "file":
        return RedactionResult(left_out={shown: kind})
    temp = target.with_name(f".{uuid4().hex}.tmp")
    try:
        with open_plain(source) as file, temp.open("xb") as copy:
            about = os.fstat(file.fileno())
            if mostly_holes(about):
                return RedactionResult(refused={shown: f"a sparse file of {about.st_size} bytes, most of them holes"})
            reason, counts = _copied(redactor, file, copy, name, check)
            os.fchmod(copy.fileno(), 0o755 if about.st_mode & 0o111 else 0o644)
        if reason is not None:
            return RedactionResult(refused={shown: reason})
        size = temp.stat().st_size
        temp.replace(target)
    finally:
        with suppress(FileNotFoundError):
            temp.unlink()
    return RedactionResult(counts=dict(counts), files=1, bytes=size)


def _copied(
    redactor: Redactor, file: IO[bytes], copy: IO[bytes], name: str, check: Check
) -> tuple[str | None, Counter[str]]:
    """Copy, and tell why the copy may not be published and what was taken out."""
    head = file.read(HEAD)
    file.seek(0)
    counts: Counter[str] = Counter()
    if not is_binary(head):
        try:
            taken_out = redactor.filter(ips=redactor.ips_in(name), counts=counts)
            parts = _Parts(redactor, os.fstat(file.fileno()).st_size)
            copy.writelines(as_before(head, piped(parts.watched(as_utf8(head, pieces(file, check))), taken_out)))
        except NotText:
            file.seek(0)
            copy.seek(0)
            copy.truncate()
        else:
            if parts.refused is not None:
                return parts.refused, counts
            changed_json = counts and encoding_of(head)[0] == "utf-8" and may_be_json(head)
            return (_kept_valid(file, copy) if changed_json else None), counts
    copy.writelines(pieces(file, check))
    copy.flush()
    return _refused(redactor, copy, check), Counter()


class _Parts:
    """Looks into the binary parts of a git patch, which cannot be changed."""

    def __init__(self, redactor: Redactor, size: int) -> None:
        self.refused: str | None = None
        self._inside = Inside(redactor.secrets, size=size)
        self._parts = BinaryParts()

    def watched(self, given: Iterable[bytes]) -> Iterator[bytes]:
        for piece in given:
            self._look(self._parts.feed(piece))
            yield piece
        self._look(self._parts.flush())

    def _look(self, parts: Iterator[bytes]) -> None:
        for form, where in self._inside.patched(parts):
            if self.refused is None:
                why = "it cannot be looked into" if form == UNREADABLE else "it holds a known value"
                self.refused = f"{why}: {where}" if form == UNREADABLE else f"{why} ({form}, {where})"


def _kept_valid(file: IO[bytes], copy: IO[bytes]) -> str | None:
    """Where it is JSON, make the copy valid JSON."""
    copy.flush()
    path = Path(copy.name)
    new = path.with_suffix(".json.tmp")
    try:
        file.seek(0)
        with open_plain(path) as masked:
            if still_json(file, masked):
                return None
        file.seek(0)
        with open_plain(path) as masked, new.open("xb") as valid:
            valid.writelines(mended_copy(file, masked))
        with open_plain(new) as valid:
            copy.seek(0)
            shutil.copyfileobj(valid, copy, BLOCK)
            copy.truncate()
    except Broken:
        return "it holds something in a place where it cannot be masked without breaking its JSON"
    finally:
        with suppress(FileNotFoundError):
            new.unlink()
    return None


def _refused(redactor: Redactor, copy: IO[bytes], check: Check) -> str | None:
    """Why the copy of a binary file may not be published."""
    with open_plain(Path(copy.name)) as file:
        for form, where in Inside(redactor.secrets, size=os.fstat(file.fileno()).st_size, check=check).hits(file):
            if form == UNREADABLE:
                return f"it cannot be looked into: {where}"
            return f"no text, and it holds a known value ({form}, {where})"
    return None
