"""What an unquoted word of YAML 1.2 means (the core schema): `no` and `on` are text, and so is a date."""

from __future__ import annotations

import math
import re

_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}


def read_scalar(text: str) -> str | int | float | bool | None:
    """The value of an unquoted word.

    Raises:
        ValueError: It is a number that cannot be used; the message says why.
    """
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        if len(text) > 1000:
            raise ValueError("this number has more than 1000 digits")
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        value = float(text)
        if math.isinf(value):
            raise ValueError(f"{text} is too large for a number; if it is text, put it in quotes")
        return value
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} is no finite number; if it is text, put it in quotes")
    return text
