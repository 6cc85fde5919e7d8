"""Values that options take: durations, numbers, and K=V pairs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from agentix.errors import ConfigError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def parse_duration(text: str, *, where: str) -> float:
    """Seconds from `90`, `90s`, `30m` or `1h30m`.

    Raises:
        ConfigError: It is none of these, or not greater than 0.
    """
    text = text.strip()
    try:
        seconds = float(text)
    except ValueError:
        parts = _PART.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            raise ConfigError(f"{text!r} is no duration", where=where, hint="Write 90, 90s, 30m or 1h30m.") from None
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if not (math.isfinite(seconds) and seconds > 0):
        raise ConfigError(f"{text!r} is no duration greater than 0", where=where)
    return seconds


def finite(value: float | None, where: str) -> float | None:
    """The number, if any.

    Raises:
        ConfigError: It is infinite, or none.
    """
    if value is not None and not math.isfinite(value):
        raise ConfigError(f"{value} is not a finite number", where=where)
    return value


def positive(value: float | None, where: str) -> float | None:
    """The number, if any.

    Raises:
        ConfigError: It is not finite, or not greater than 0.
    """
    if value is not None and not (math.isfinite(value) and value > 0):
        raise ConfigError(f"{value} is not a number greater than 0", where=where, hint="Leave it out for no limit.")
    return value


def parse_pairs(given: Iterable[str], *, where: str) -> dict[str, object]:
    """Options from `K=V`; a key that is repeated has a list.

    Raises:
        ConfigError: There is no `=`, or nothing before it.
    """
    found: dict[str, object] = {}
    for text in given:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key:
            raise ConfigError(f"{text!r} is not KEY=VALUE", where=where)
        earlier = found.get(key)
        if key not in found:
            found[key] = value
        elif isinstance(earlier, list):
            earlier.append(value)
        else:
            found[key] = [earlier, value]
    return found
