"""Values that a file writes in a short form."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


def parse_duration(value: Any) -> float:
    """Seconds in `90s`, `30m` or `1h30m`.

    Raises:
        ValueError: It is no such duration, or no time at all.
    """
    if isinstance(value, float):
        return value
    match = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
    if match is None:
        raise ValueError(f"{value!r} is no duration; write it like 90s, 30m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    total = hours * 3600 + minutes * 60 + seconds
    if total <= 0:
        raise ValueError(f"{value!r} is no time at all")
    return total


Duration = Annotated[float, BeforeValidator(parse_duration)]
"""Seconds, written like `90s`, `30m`, `1h30m`."""
