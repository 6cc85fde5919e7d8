"""Check the options that a user gave against a plugin's `Config`."""

from __future__ import annotations

import json
import types
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from agentix.errors import ConfigError
from agentix.registry.resolving import nearest
from agentix.registry.typed import type_wanted, typed_errors

_LISTS = (list, tuple, set, frozenset)
_NONE = ("none", "null")


def option_path(where: str, key: str) -> str:
    """The path of one option as the user typed it: `--agent-opt key` or `agent.key`."""
    if where.startswith("--"):
        return f"{where if where.endswith('-opt') else f'{where}-opt'} {key}"
    return f"{where}.{key}" if where else key


def configure(
    config: type[BaseModel],
    options: Mapping[str, object],
    *,
    label: str,
    where: str,
    typed: Collection[str] = (),
) -> BaseModel:
    """A plugin's config from options.

    A string is read as the field's type; a list takes `a,b` or a repeated option; a mapping takes JSON. Those that are
    `typed` are taken for what they are.

    Raises:
        ConfigError: An option is unknown, missing or not valid; the error names the first by its path.
    """
    fields = {info.alias or name: info for name, info in config.model_fields.items()}
    by_name = {name: info.alias or name for name, info in config.model_fields.items()} | {key: key for key in fields}
    named: dict[str, str] = {}
    values: dict[str, object] = {}
    for key, value in options.items():
        target = by_name.get(key, by_name.get(key.replace("-", "_")))
        if target is None:
            if config.model_config.get("extra") != "allow":
                raise _unknown(key, fields, label=label, where=where)
            values[key] = value
            continue
        if target in values:
            raise ConfigError("is given twice", where=option_path(where, key))
        named[target] = key
        values[target] = value if key in typed else _read(fields[target], value, option_path(where, key))
    meant = {target: values[target] for target, key in named.items() if key in typed}
    for error in typed_errors(config, meant) if meant else ():
        if error["loc"] and error["loc"][0] in meant and (wrong := type_wanted(error)) is not None:
            target, *deeper = (str(part) for part in error["loc"])
            raise ConfigError(wrong, where=option_path(where, ".".join([named[target], *deeper])))
    try:
        return config.model_validate(values)
    except ValidationError as exc:
        raise _invalid(exc, named, label=label, where=where) from None


def refuse_options(options: Mapping[str, object], *, what: str, where: str) -> None:
    """For a plugin that has no options.

    Raises:
        ConfigError: Some were given.
    """
    for key in options:
        raise ConfigError(f"{what} takes no options", where=option_path(where, key))


def _unknown(key: str, fields: Mapping[str, FieldInfo], *, label: str, where: str) -> ConfigError:
    meant = nearest(key, fields)
    hint = f"did you mean {meant!r}? " if meant else ""
    hint += f"its options: {', '.join(fields)}" if fields else "it takes none"
    return ConfigError(f"{label} has no such option", where=option_path(where, key), hint=hint)


def _invalid(exc: ValidationError, named: Mapping[str, str], *, label: str, where: str) -> ConfigError:
    first = exc.errors(include_url=False, include_input=False)[0]
    if not first["loc"]:
        return ConfigError(f"the options of {label} cannot be used: {_said(first)}", where=where)
    key, *deeper = (str(part) for part in first["loc"])
    path = option_path(where, ".".join([named.get(key, key), *deeper]))
    if first["type"] == "missing" and not deeper:
        hint = f"{path}=VALUE" if where.startswith("--") else None
        return ConfigError(f"{label} needs this option", where=path, hint=hint)
    return ConfigError(_said(first), where=path)


def _said(error: ErrorDetails) -> str:
    """What is wrong, in the words of the plugin or in plain ones."""
    context = error.get("ctx", {})
    if error["type"] in ("value_error", "assertion_error"):
        return str(context.get("error") or error["msg"])
    if error["type"] == "too_short":
        return f"needs at least {context['min_length']} value(s), not {context['actual_length']}"
    return error["msg"]


def _read(field: FieldInfo, value: object, path: str) -> object:
    """Bring what a command line can say into the shape that the field has; pydantic does the rest."""
    kinds = _alternatives(field.annotation)
    takes_list = any(kind in _LISTS for kind in kinds)
    if isinstance(value, list) and not takes_list and Any not in kinds and all(isinstance(v, str) for v in value):
        if len(value) != 1:
            raise ConfigError(f"is given {len(value)} times and takes one value", where=path)
        value = value[0]
    if isinstance(value, list) and takes_list and len(value) == 1 and isinstance(value[0], str):
        value = value[0]
    if not isinstance(value, str) or str in kinds or Any in kinds:
        return value
    if type(None) in kinds and Literal not in kinds and value.lower() in _NONE:
        return None
    if takes_list and not value.startswith("["):
        return [part.strip() for part in value.split(",")] if value else []
    if takes_list or any(kind is dict or _is_model(kind) for kind in kinds):
        try:
            return json.loads(value)
        except ValueError as exc:
            raise ConfigError(f"is not valid JSON: {exc}", where=path) from None
    return value


def _alternatives(annotation: object) -> set[object]:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _alternatives(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return set().union(*(_alternatives(arg) for arg in get_args(annotation)))
    if origin is not None and isinstance(origin, type):
        return {next((kind for kind in (*_LISTS, dict) if issubclass(kind, origin)), origin)}
    return {origin or annotation}


def _is_model(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
