"""Values that a file writes in a short form."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo, WithJsonSchema

_YEAR = 366 * 24 * 3600.0
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


def parse_duration(value: Any) -> float:
    """Seconds in `90s`, `30m` or `1h30m`.

    Raises:
        ValueError: It is no such duration, or no time at all.
    """
    match = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
    if match is None:
        raise ValueError(f"{_shortened(value)} is no duration; write it like 90s, 30m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    total = hours * 3600 + minutes * 60 + seconds
    if total <= 0:
        raise ValueError(f"{value!r} is no time at all")
    if total > _YEAR:
        raise ValueError(f"{_shortened(value)} is longer than a year")
    return total


def _read(value: Any, info: ValidationInfo) -> float:
    # A program gives seconds; in a file a bare number could be minutes just as well.
    if info.mode == "python" and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return parse_duration(value)


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


Duration = Annotated[
    float,
    BeforeValidator(_read),
    WithJsonSchema({"type": "string", "pattern": r"^(\d+(\.\d+)?h)?(\d+(\.\d+)?m)?(\d+(\.\d+)?s)?$", "minLength": 2}),
]
"""Seconds, written like `90s`, `30m`, `1h30m`."""
