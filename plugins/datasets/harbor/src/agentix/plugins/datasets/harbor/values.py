"""The kinds of values that task.toml has, beyond those of TOML."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

_SIZES = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a number is needed, not a boolean")
    return value


def _user(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise ValueError("a user id is not negative")
        return str(value)
    return value


def _version(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _known_version(value: str) -> str:
    if value.split(".")[0] != "1":
        raise ValueError(f'"{value}" is not known here; versions 1.0 to 1.4 are')
    return value


def _env(value: dict[str, str]) -> dict[str, str]:
    for name, text in value.items():
        if not name or "=" in name or "\0" in name:
            raise ValueError(f"{name!r} is not a name of an environment variable")
        if "\0" in text:
            raise ValueError(f"the value of {name} holds a NUL byte")
    return value


def _thresholds(value: Any) -> Any:
    for least in value.values() if isinstance(value, dict) else [value]:
        if isinstance(least, bool) or not isinstance(least, int | float) or not math.isfinite(least):
            raise ValueError("a finite number is needed, or a table of them")
    return value


def no_parent(path: str) -> str:
    """Give back a path that leads nowhere up.

    Raises:
        ValueError: It has a `..` in it.
    """
    if ".." in path.split("/"):
        raise ValueError(f"the path {path!r} must not contain '..'")
    return path


def megabytes(size: Any, *, key: str) -> Any:
    """A size such as "2G" in MB; what is no string stays as it is.

    Raises:
        ValueError: The string is not a size.
    """
    if not isinstance(size, str):
        return size
    number, unit = size.strip()[:-1], size.strip()[-1:].upper()
    try:
        amount = float(number) * _SIZES[unit]
    except (KeyError, ValueError):
        raise ValueError(f'{key} = "{size}" is not a size such as "512M" or "2G"') from None
    if not 1 <= amount < 2**40:
        raise ValueError(f'{key} = "{size}" is not between 1 MB and 1 EB')
    return int(amount)


Seconds = Annotated[float, BeforeValidator(_no_bool), Field(gt=0, allow_inf_nan=False)]
Pause = Annotated[float, BeforeValidator(_no_bool), Field(ge=0, allow_inf_nan=False)]
Amount = Annotated[int, BeforeValidator(_no_bool), Field(gt=0)]
Cpus = Annotated[float, BeforeValidator(_no_bool), Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, BeforeValidator(_no_bool), Field(ge=0)]
User = Annotated[str, BeforeValidator(_user), Field(min_length=1)]
Version = Annotated[str, BeforeValidator(_version)]
SchemaVersion = Annotated[str, AfterValidator(_known_version), BeforeValidator(_version)]
Env = Annotated[dict[str, str], AfterValidator(_env)]
Thresholds = Annotated[float | dict[str, float], BeforeValidator(_thresholds)]
SourcePath = Annotated[str, AfterValidator(no_parent), Field(min_length=1)]
Name = Annotated[str, Field(min_length=1)]
AbsolutePath = Annotated[str, Field(pattern="^/")]
