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
    """The parts of a path.

    Raises:
        ValueError: It is no path.
    """
    parts: list[Part] = []
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            raise ValueError(f"{text!r} is no path")
        if match["index"] is not None:
            parts.append(int(match["index"]))
        else:
            parts.append(json.loads(match["quoted"]) if match["quoted"] is not None else match["plain"])
        at = match.end()
    return parts
