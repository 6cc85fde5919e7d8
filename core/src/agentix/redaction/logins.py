"""Logins in addresses, which a message or a receipt may not show."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar, cast

T = TypeVar("T")

# Up to the last @ before the path: a password may hold one itself.
_TEXT = re.compile(r"(?<=://)[^\s/?#]*@")
_BYTES = re.compile(_TEXT.pattern.encode())


def without_logins(given: T) -> T:
    """The same without user names and passwords in addresses: `https://host/path` for `https://user:password@host/path`.

    Args:
        given: Text, bytes, or plain data with texts anywhere in it; anything else stays as it is.
    """
    return cast("T", _without(given))


def _without(given: object) -> object:
    if isinstance(given, str):
        return _TEXT.sub("", given)
    if isinstance(given, bytes):
        return _BYTES.sub(b"", given)
    if isinstance(given, Mapping):
        return {_without(key): _without(value) for key, value in given.items()}
    if isinstance(given, list | tuple):
        return [_without(value) for value in given]
    return given
