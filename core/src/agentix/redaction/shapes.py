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
_TOKENS = tuple(
    (kind, re.compile(begins), re.compile(_EDGE + pattern))
    for kind, begins, pattern in (
        ("anthropic_key", rb"sk-ant-", rb"sk-ant-[A-Za-z0-9_-]{12,512}"),
        ("openai_key", rb"sk-", rb"sk-(?!ant-)[A-Za-z0-9_-]{16,512}"),
        ("aws_key", rb"A[KS]IA", rb"A[KS]IA[0-9A-Z]{16}(?![0-9A-Za-z])"),
        ("google_key", rb"AIza", rb"AIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])"),
        ("github_token", rb"gh[pousr]_", rb"gh[pousr]_[A-Za-z0-9]{30,255}"),
        ("github_token", rb"github_pat_", rb"github_pat_[A-Za-z0-9_]{22,255}"),
        ("huggingface_token", rb"hf_", rb"hf_[A-Za-z0-9]{30,255}(?![A-Za-z0-9_])"),
        ("slack_token", rb"x(?:ox[a-z]|app)-", rb"x(?:ox[a-z]|app)-(?=[A-Za-z-]*[0-9])[A-Za-z0-9-]{10,512}"),
    )
)
"""Kind, beginning and whole: a beginning of letters only is found many times faster than what may be before it."""

_MIXED = re.compile(rb"(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{10}")


def shape_spans(data: bytes) -> list[Span]:
    """Everything that is told by what it looks like."""
    return [*token_spans(data), *private_key_spans(data), *header_spans(data), *url_spans(data)]


def token_spans(data: bytes) -> list[Span]:
    """Keys and tokens with a prefix of their own."""
    found: list[Span] = []
    for kind, begins, whole in _TOKENS:
        for begin in begins.finditer(data):
            match = whole.match(data, begin.start())
            # sk- also begins the names of libraries and of classes, which are words.
            if match is not None and (kind != "openai_key" or _MIXED.search(match[0])):
                found.append((*match.span(), kind))
    return found
