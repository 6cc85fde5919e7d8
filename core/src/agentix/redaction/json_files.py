"""Keeps JSON files valid where something in them was masked that is no text."""

from __future__ import annotations

import codecs
import json
import mmap
import re
from collections.abc import Iterator
from typing import IO

WHOLE = 64 << 20
"""Bytes of a document, or of a line, that is parsed to see whether it is valid."""

_PARTS = re.compile(rb'"(?:[^"\\]|\\.)*+"|[^\s,:\[\]{}"]*\*\*\*[^\s,:\[\]{}"]*', re.DOTALL)


class Broken(Exception):
    """It was JSON, and no longer is."""


def mended(before: bytes, after: bytes) -> bytes:
    """JSON in which something was masked, made valid.

    Args:
        before: The document, or the line.
        after: The same, masked.

    Returns:
        It, with a text in the place of every number that was masked; as it was masked where that is valid, or where
        `before` was no JSON to begin with.

    Raises:
        Broken: It cannot be made valid.
    """
    if before == after or not is_json(before) or is_json(after):
        return after
    new = _PARTS.sub(_as_text, after)
    if not is_json(new):
        raise Broken
    return new


def mended_lines(before: str, after: str) -> str:
    """A text in which something was masked, with what was JSON in it valid: the whole, or lines of it."""
    old, new = before.encode("utf-8", "surrogatepass"), after.encode("utf-8", "surrogatepass")
    if is_json(old):
        lines = [(old, new)]
    else:
        lines = list(zip(old.splitlines(keepends=True), new.splitlines(keepends=True), strict=False))
    done = b"".join(mended(*line) for line in lines)
    return done.decode("utf-8", "surrogatepass")


def may_be_json(head: bytes) -> bool:
    """Whether a file that begins like that may be JSON, or have some on every line."""
    return head.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"[")


def still_json(before: IO[bytes], after: IO[bytes]) -> bool:
    """Whether every line of a masked copy that was JSON still is; false too for a document over several lines.

    Args:
        before: The source, at its beginning.
        after: Its masked copy, at its beginning.
    """
    lines = zip(before, after, strict=False)
    return (
        is_json(before.readline(WHOLE))
        and is_json(after.readline(WHOLE))
        and all(old == new or not is_json(old) or is_json(new) for old, new in lines)
    )


def mended_copy(before: IO[bytes], after: IO[bytes]) -> Iterator[bytes]:
    """A copy that was masked, made valid: a document, or one on each line.

    Args:
        before: The source, at its beginning.
        after: Its masked copy, at its beginning.

    Raises:
        Broken: It cannot be made valid.
    """
    lines = _mended_lines(before, after)
    first = before.readline(WHOLE)
    size = before.seek(0, 2)
    before.seek(0)
    if is_json(first):
        yield from lines
    elif size > WHOLE:
        yield from _mended_parts(after)
    elif is_json(whole := before.read()):
        yield mended(whole, after.read())
    else:
        before.seek(0)
        yield from lines


def _mended_lines(before: IO[bytes], after: IO[bytes]) -> Iterator[bytes]:
    for old, new in zip(before, after, strict=False):
        yield new if new == old else mended(old, new)
    yield from after


def _mended_parts(file: IO[bytes]) -> Iterator[bytes]:
    """One large document, which is not parsed: whatever was masked outside of texts becomes a text."""
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        done = 0
        for part in _PARTS.finditer(data):
            if data[part.start()] != 0x22:
                yield data[done : part.start()]
                yield _as_text(part)
                done = part.end()
        yield data[done:]


def _as_text(part: re.Match[bytes]) -> bytes:
    return part[0] if part[0].startswith(b'"') else b'"***"'


def is_json(data: bytes) -> bool:
    """Whether it is one JSON document."""
    if not may_be_json(data):
        return False
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True
