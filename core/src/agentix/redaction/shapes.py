"""Secrets that are told by what they look like, without being known."""

from __future__ import annotations

import re

from agentix.redaction.edges import AFTER_ESCAPE
from agentix.redaction.headers import header_spans
from agentix.redaction.known import Span
from agentix.redaction.private_keys import private_key_spans
from agentix.redaction.urls import url_spans

LONGEST = 32768
"""Bytes of the longest that is found, with its name and what is around it."""

_EDGE = rb"(?:(?<![0-9A-Za-z_])|" + AFTER_ESCAPE + rb")"
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
_COMPILED = tuple((kind, anchors, re.compile(_EDGE + pattern)) for kind, anchors, pattern in _TOKENS)

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


def shape_spans(data: bytes) -> list[Span]:
    """Everything that is told by what it looks like."""
    return [*token_spans(data), *private_key_spans(data), *header_spans(data), *url_spans(data)]
