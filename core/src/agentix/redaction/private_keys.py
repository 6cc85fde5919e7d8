"""Private keys in the PEM format."""

from __future__ import annotations

import re

from agentix.redaction.known import Span

KIND = "private_key"
LONGEST = 16384
"""Bytes of the longest key that is taken out as one."""

_DASHES = b"-----BEGIN "
_BEGIN = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(rb"-----END [A-Z0-9 ]{0,40}PRIVATE KEY")
_BREAK = rb"(?:\\+[rn]|[\r\n])+[ \t]*"
_REST = re.compile(
    rb"(?:" + _BREAK + rb"[A-Za-z0-9+/=]{40,80}){1,400}(?:" + _BREAK + rb"[A-Za-z0-9+/=]{1,80}(?![^\r\n\\\"']))?"
)


def private_key_spans(data: bytes) -> list[Span]:
    """What stands between the first and the last line of a key, or follows a first line that has no last one."""
    found: list[Span] = []
    place = data.find(_DASHES)
    while place >= 0:
        begin = _BEGIN.match(data, place)
        if begin is not None:
            start = begin.end()
            end = _END.search(data, start, start + LONGEST)
            rest = _REST.match(data, start) if end is None else None
            if end is not None:
                found.append((start, end.start(), KIND))
            elif rest is not None:
                found.append((start, rest.end(), KIND))
        place = data.find(_DASHES, place + 1)
    return found
