"""Secrets that are told by what they look like, without being known."""

from __future__ import annotations

import re

from agentix.redaction.known import Span

LONGEST = 16384
"""Bytes of the longest that is found."""

EDGE = (
    rb"(?:(?<![0-9A-Za-z_])|(?<=\\[nrtbf])|(?<=\\u[0-9A-Fa-f]{4})|(?<=\\x[0-9A-Fa-f]{2})"
    rb"|(?<=%[0-9A-Fa-f]{2})|(?<=[0-9;\[]m))"
)
"""Where a word begins, also after an escaped line break, `%3D` and a change of colour."""

_TOKENS: tuple[tuple[str, tuple[bytes, ...], bytes], ...] = (
    ("anthropic_key", (b"sk-ant-",), rb"sk-ant-[A-Za-z0-9_-]{12,512}"),
    ("openai_key", (b"sk-",), rb"sk-(?!ant-)(?=[A-Za-z0-9_-]{16})[A-Za-z0-9_-]{16,512}"),
    ("aws_key", (b"AKIA", b"ASIA"), rb"A[KS]IA[0-9A-Z]{16}(?![0-9A-Za-z])"),
    ("google_key", (b"AIza",), rb"AIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])"),
    ("github_token", (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"), rb"gh[pousr]_[A-Za-z0-9]{30,255}"),
    ("github_token", (b"github_pat_",), rb"github_pat_[A-Za-z0-9_]{22,255}"),
    ("huggingface_token", (b"hf_",), rb"hf_[A-Za-z0-9]{30,255}(?![A-Za-z0-9_])"),
    ("slack_token", (b"xox", b"xapp-"), rb"(?:xox[a-z]|xapp)-(?:[a-z]-)?(?=[A-Za-z-]*[0-9])[A-Za-z0-9-]{10,512}"),
)
_COMPILED = tuple((kind, anchors, re.compile(EDGE + pattern)) for kind, anchors, pattern in _TOKENS)

_MIXED = re.compile(rb"(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{10}")


def token_spans(data: bytes) -> list[Span]:
    """Keys and tokens with a prefix of their own."""
    found: list[Span] = []
    for kind, anchors, pattern in _COMPILED:
        for anchor in anchors:
            if anchor not in data:
                continue
            for start in _places(data, anchor):
                match = pattern.match(data, start)
                # sk- also begins the names of libraries and of classes, which are words.
                if match is not None and (kind != "openai_key" or _MIXED.search(match[0])):
                    found.append((start, match.end(), kind))
    return found


def _places(data: bytes, anchor: bytes) -> list[int]:
    places, place = [], data.find(anchor)
    while place >= 0:
        places.append(place)
        place = data.find(anchor, place + len(anchor))
    return places
