"""Any value as data that strict JSON can hold."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from enum import Enum
from typing import Any

from pydantic import BaseModel


def clean_text(text: str) -> str:
    """The text with lone surrogates, which UTF-8 cannot hold, spelled out as escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def plain(value: Any) -> Any:
    """What JSON can hold of a value: numbers that are not finite and foreign objects become text.

    Results are kept whatever a plugin put into them, so nothing is refused here.
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, BaseModel):
        return plain(value.model_dump(mode="json"))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {clean_text(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=repr)
    return clean_text(str(value))


def dump_line(data: Mapping[str, Any]) -> bytes:
    """One line of strict JSON, with its newline."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def dump_pretty(data: Any) -> bytes:
    """A JSON file for people and programs."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False, indent=2).encode() + b"\n"
