"""From the objects that functions return to plain data; runs in the sandbox, where any of it may be imported."""

from __future__ import annotations

import datetime
import sys
from collections import deque
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from uuid import UUID

from agentix.runtime.plain import CannotLower, Delta, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def lower(value: Any) -> Any:
    """One object, not what it holds, as something that `plain.encode` knows, or that can be lowered further.

    Raises:
        CannotLower: It is not data.
    """
    kind = type(value)
    # The order matters: an enum may be an int, a named tuple is a tuple, and a datetime is a date.
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(memoryview(value))
    if isinstance(value, tuple | list | dict | set | frozenset):
        for container in (tuple, list, dict, set, frozenset):
            if isinstance(value, container):
                return container(value)
    text = _as_text(value)
    if text is not None:
        return text
    if isinstance(value, deque):
        return list(value)
    if isinstance(value, type):
        raise CannotLower("a class is not data", f"class {value.__qualname__}")
    try:
        if is_dataclass(value):
            return {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        if isinstance(getattr(kind, "__pydantic_fields__", None), dict):
            return _model(value)
    except Exception as error:
        raise CannotLower(f"its fields cannot be read: {type(error).__name__}: {error}", name_of(kind)) from error
    raise CannotLower("it is no plain data", name_of(kind))


def name_of(kind: type) -> str:
    """A type's full name; of a built-in one without the module."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _as_text(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return Text(b"D", value.isoformat())
    if isinstance(value, datetime.date):
        return Text(b"A", value.isoformat())
    if isinstance(value, datetime.time):
        return Text(b"T", value.isoformat())
    if isinstance(value, datetime.timedelta):
        return Delta(value.days, value.seconds, value.microseconds)
    if isinstance(value, PurePath):
        return Text(b"P", str(value))
    if isinstance(value, UUID):
        return Text(b"U", str(value))
    if isinstance(value, Decimal):
        return Text(b"C", str(value))
    return None


def _model(value: Any) -> Any:
    """A pydantic model under the names by which it is validated again."""
    kind = type(value)
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and isinstance(value, pydantic.RootModel):
        return value.root
    lowered = {}
    for name, field in kind.__pydantic_fields__.items():
        alias = field.validation_alias if isinstance(field.validation_alias, str) else field.alias
        lowered[alias if isinstance(alias, str) else name] = getattr(value, name)
    lowered.update(getattr(value, "__pydantic_extra__", None) or {})
    return lowered
