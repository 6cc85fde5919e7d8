"""Markdown in which every text shows as itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

_MEANS_SOMETHING = re.compile(r"([\\`*_\[\]|~#!])")


def clean(text: str) -> str:
    """A text on one line, in which nothing is invisible, moves the cursor or turns the direction of writing."""
    return "".join(char if char.isprintable() else _visible(char) for char in text)


def escaped(text: str) -> str:
    """A text that shows as itself, whatever it holds."""
    entities = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MEANS_SOMETHING.sub(r"\\\1", entities)


def table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table, and an empty one; cells are escaped, the names of columns are not."""
    yield "| " + " | ".join(names) + " |"
    yield "| " + " | ".join("---" for _ in names) + " |"
    for row in rows:
        yield "| " + " | ".join(escaped(cell) for cell in row) + " |"
    yield ""


def _visible(char: str) -> str:
    return " " if char in "\t\n\r\v\f" else char.encode("unicode_escape", "backslashreplace").decode("ascii")
