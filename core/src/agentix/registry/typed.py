"""Values whose type is meant, as in a file: the text "3" is no number, and "yes" is no truth value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

_SCALARS: Mapping[str, str] = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
}
_KINDS: Mapping[str, str] = {
    **_SCALARS,
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
}
"""What has to stand there, by what pydantic calls the error."""
_SHOWN = 60


def typed_errors(
    model: type[BaseModel], given: Mapping[str, Any], *, context: Mapping[str, Any] | None = None
) -> list[ErrorDetails]:
    """What is wrong with values, those among them that would have to be read as something that they are not.

    Args:
        model: What they have to be.
        given: As a file has them: texts, numbers, truth values, lists and mappings.
        context: For the validators of the model.
    """
    found: list[ErrorDetails] = []
    try:
        model.model_validate(given, context=context)
    except ValidationError as error:
        found += error.errors(include_url=False)
    try:
        # As JSON, for a strict model takes no list for a tuple and no text for a path from Python.
        model.model_validate_json(json.dumps(given), strict=True, context=context)
    except ValidationError as error:
        told = {item["loc"] for item in found}
        strict = [item for item in error.errors(include_url=False) if item["type"] in _SCALARS]
        found += [item for item in strict if item["loc"] not in told and _at(given, item["loc"]) == item["input"]]
    return found


def type_wanted(error: ErrorDetails) -> str | None:
    """`has to be a whole number, not the text "3"`, where a value is of another type."""
    kind, value = _KINDS.get(error["type"]), error["input"]
    if error["type"] in ("literal_error", "enum"):
        kind = str(error.get("ctx", {}).get("expected")).replace("'", "")
    return None if kind is None or isinstance(value, dict | list) else f"has to be {kind}, not {_said(value)}"


def _at(given: Any, loc: tuple[int | str, ...]) -> Any:
    """What the file says there; `None` for where it says nothing, such as in one of several types that would do."""
    for part in loc:
        try:
            given = given[part]
        except (LookupError, TypeError):
            return None
    return given


def _said(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return f'the text "{text}"' if isinstance(value, str) else text
