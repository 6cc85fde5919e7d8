"""Splits the arguments of a Dockerfile's instruction and replaces its variables, as the Dockerfile reference says."""

from __future__ import annotations

import re
from collections.abc import Callable

_VARIABLE = re.compile(
    r"\$(?:(?P<plain>[A-Za-z_]\w*|\d)|\{(?P<name>[A-Za-z_]\w*)(?:(?P<how>:?[-+])(?P<word>[^}]*))?\})", re.ASCII
)

Lookup = Callable[[str], str | None]


def split_words(text: str, lookup: Lookup) -> list[str]:
    """Split at white space outside quotes; a variable's value is never split.

    Args:
        text: What follows the instruction.
        lookup: The value of a variable; `None` where it is not set.

    Raises:
        ValueError: A quote is not closed, or a variable is used in a way that is not supported.
    """
    words: list[str] = []
    current: list[str] | None = None
    position = 0
    while position < len(text):
        if text[position].isspace():
            if current is not None:
                words.append("".join(current))
            current = None
            position += 1
            continue
        current = [] if current is None else current
        piece, position = _piece(text, position, lookup)
        current.append(piece)
    if current is not None:
        words.append("".join(current))
    return words


def expand(text: str, lookup: Lookup) -> str:
    """Replace variables and remove quotes, without splitting.

    Raises:
        ValueError: As `split_words`.
    """
    pieces = []
    position = 0
    while position < len(text):
        piece, position = _piece(text, position, lookup)
        pieces.append(piece)
    return "".join(pieces)


def _piece(text: str, position: int, lookup: Lookup) -> tuple[str, int]:
    """One quoted part, escaped character, variable or plain character, and where the next one starts."""
    first = text[position]
    if first == "'":
        end = text.find("'", position + 1)
        if end < 0:
            raise ValueError("a ' is not closed")
        return text[position + 1 : end], end + 1
    if first == '"':
        return _double_quoted(text, position + 1, lookup)
    if first == "\\":
        return text[position + 1 : position + 2], position + 2
    if first == "$":
        return _variable(text, position, lookup)
    return first, position + 1


def _double_quoted(text: str, position: int, lookup: Lookup) -> tuple[str, int]:
    pieces: list[str] = []
    while position < len(text):
        if text[position] == '"':
            return "".join(pieces), position + 1
        if text[position] == "\\" and text[position + 1 : position + 2] in ('"', "$", "\\"):
            pieces.append(text[position + 1])
            position += 2
        elif text[position] == "$":
            piece, position = _variable(text, position, lookup)
            pieces.append(piece)
        else:
            pieces.append(text[position])
            position += 1
    raise ValueError('a " is not closed')


def _variable(text: str, position: int, lookup: Lookup) -> tuple[str, int]:
    match = _VARIABLE.match(text, position)
    if match is None:
        if text[position + 1 : position + 2] == "{":
            written = text[position:].split("}")[0] + "}"
            raise ValueError(f"the variable {written} is written in a way that is not supported")
        return "$", position + 1
    value = lookup(match["plain"] or match["name"])
    how, word = match["how"] or "", match["word"] or ""
    present = value is not None and (value != "" or not how.startswith(":"))
    if how.endswith("-") and not present:
        value = expand(word, lookup)
    elif how.endswith("+"):
        value = expand(word, lookup) if present else ""
    return value or "", match.end()
