"""Reads `task.toml`: errors with their place, unknown keys with the nearest known one."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from agentix.api import DatasetError
from agentix.plugins.datasets.harbor.schema import TaskFile

_POSITION = re.compile(r" ?\(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$")


def read_task_file(path: Path) -> TaskFile:
    """Read and check one file.

    Raises:
        DatasetError: It cannot be read, is no TOML, or a value has the wrong type; the message names the
            file and the line and column, or the key.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        raise DatasetError(f"{path}:{line}:{column}: not UTF-8") from error
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DatasetError(f"{path}:{_place(str(error), text)}") from error
    except RecursionError:
        raise DatasetError(f"{path}: the values are nested too deeply") from None
    try:
        return TaskFile.model_validate(values)
    except ValidationError as error:
        raise DatasetError("\n".join(f"{path}: {line}" for line in _lines(error))) from error


def _place(message: str, text: str) -> str:
    match = _POSITION.search(message)
    if match is None:
        return f" {message}"
    what = message[: match.start()]
    if match["line"] is None:
        last = text.rpartition("\n")[2]
        return f"{text.count(chr(10)) + 1}:{len(last) + 1}: {what}"
    return f"{match['line']}:{match['column']}: {what}"


_WORDING = {"model_type": "a table is needed", "missing": "it is missing", "string_type": "a string is needed"}


def _lines(error: ValidationError) -> Iterator[str]:
    for problem in error.errors(include_url=False):
        message = _WORDING.get(problem["type"]) or problem["msg"].removeprefix("Value error, ")
        message = message.removeprefix("Input ")
        given = "" if problem["type"] in ("missing", "value_error") else f", not {_short(problem['input'])}"
        key = _key(problem["loc"])
        yield f"{key}: {message}{given}" if key else message


def _key(location: tuple[int | str, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def unknown_keys(file: TaskFile) -> list[tuple[str, str | None]]:
    """Every key that was accepted though it is not known, each with the nearest known one if there is any."""
    known = sorted(_known(TaskFile))
    return [(key, _nearest(key, known)) for key in _unknown(file, "")]


def _nearest(key: str, known: list[str]) -> str | None:
    plain = re.sub(r"\[\d+\]", "", key)
    table, _, name = plain.rpartition(".")
    siblings = {k.rpartition(".")[2]: k for k in known if k.rpartition(".")[0] == table}
    close = difflib.get_close_matches(name, siblings, n=1)
    if close:
        return siblings[close[0]]
    elsewhere = {k.rpartition(".")[2]: k for k in reversed(known)}
    return next((elsewhere[k] for k in difflib.get_close_matches(name, elsewhere, n=1, cutoff=0.8)), None)


def _unknown(table: BaseModel, prefix: str) -> Iterator[str]:
    yield from (prefix + key for key in table.model_extra or {})
    for name in type(table).model_fields:
        value = getattr(table, name)
        if isinstance(value, BaseModel):
            yield from _unknown(value, f"{prefix}{name}.")
        elif isinstance(value, tuple):
            for index, item in enumerate(value):
                if isinstance(item, BaseModel):
                    yield from _unknown(item, f"{prefix}{name}[{index}].")


def _known(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield prefix + name
        for inner in _models(field.annotation):
            yield from _known(inner, f"{prefix}{name}.")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models(argument)
