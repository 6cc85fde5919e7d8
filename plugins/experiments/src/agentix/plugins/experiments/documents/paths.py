"""Paths inside a document, such as `matrix.agents[0].trials`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

Part = str | int

_PLAIN = re.compile(r"[^.\[\]\"\s]+")
_PART = re.compile(r"\.?(?P<plain>[^.\[\]\"\s]+)|\[(?P<index>\d+)\]|\[(?P<quoted>\"(?:[^\"\\]|\\.)*\")\]")


def path_text(parts: Iterable[Part]) -> str:
    """A path as people read it. A key that would be misread is quoted: `commands["a.b"]`."""
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part)}]"
    return text


def parse_path(text: str) -> Sequence[Part]:
    """The parts of a path; what cannot be read as one is a single last part."""
    parts: list[Part] = []
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            parts.append(text[at:].lstrip("."))
            break
        if match["index"] is not None:
            parts.append(int(match["index"]))
        else:
            parts.append(match["plain"] if match["quoted"] is None else str(json.loads(match["quoted"])))
        at = match.end()
    return parts
