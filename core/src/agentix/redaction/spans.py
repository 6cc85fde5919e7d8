"""Takes spans out of bytes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from agentix.redaction.known import Span

MASK = "***"
NEAR = 64
"""Bytes."""
_LINE = re.compile(rb"[^\r\n]+")


def taken_out(
    data: bytes, spans: Iterable[Span], *, before: int | None = None, counts: Counter[str] | None = None
) -> tuple[bytes, int]:
    """Put the mask in the place of what was found; line breaks stay.

    Args:
        data: The bytes.
        spans: What was found. Those that overlap become one, of the kind of the one that was given first.
        before: Spans that begin there or later stay, unless one that begins earlier reaches into or near to them.
        counts: Where to count them by kind.

    Returns:
        The bytes, and the place that `before` has in them, moved past what was taken out there.
    """
    limit = len(data) if before is None else before
    pieces: list[bytes] = []
    done = moved = 0
    for start, end, kind in _merged(spans):
        # What is close together is taken out together: a header's name may itself be a part of what goes.
        if start >= limit and (not done or start > done + NEAR or start >= (limit + len(data)) // 2):
            break
        masked = _LINE.sub(MASK.encode(), data[start:end])
        if not data[start:end].strip(b"*\r\n"):
            continue
        if counts is not None:
            counts[kind] += 1
        pieces += (data[done:start], masked)
        moved += len(masked) - (end - start)
        done = end
    if not pieces:
        return data, limit
    pieces.append(data[done:])
    return b"".join(pieces), max(limit, done) + moved


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[tuple[int, int, int, str]] = []
    for start, end, rank, kind in sorted((start, end, rank, kind) for rank, (start, end, kind) in enumerate(spans)):
        if merged and start < merged[-1][1]:
            first, last, before, told = merged[-1]
            merged[-1] = (first, max(last, end), *min((rank, kind), (before, told)))
        elif end > start:
            merged.append((start, end, rank, kind))
    return [(start, end, kind) for start, end, _, kind in merged]
