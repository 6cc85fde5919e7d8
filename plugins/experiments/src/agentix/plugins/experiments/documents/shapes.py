"""Which model stands at which place of a model, read from its annotations."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from agentix.plugins.experiments.documents.paths import Part


def keys_of(model: type[BaseModel]) -> dict[str, Any]:
    """The keys that a file may give for a model, with the type of each."""
    named = {info.validation_alias or name: info.annotation for name, info in model.model_fields.items()}
    return {str(key): annotation for key, annotation in named.items()}


def model_below(model: type[BaseModel], part: Part) -> tuple[type[BaseModel] | None, bool]:
    """The model of a key's value, and whether it is the model of each of the list or mapping there."""
    kind = _bare(keys_of(model).get(str(part)))
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind, False
    arguments = get_args(kind)
    each = _bare(arguments[-2 if get_origin(kind) is tuple else -1]) if arguments else None
    return (each, True) if isinstance(each, type) and issubclass(each, BaseModel) else (None, False)


def model_at(model: type[BaseModel], parts: Sequence[Part]) -> type[BaseModel] | None:
    """The model at a path; `None` where there is other data."""
    at: type[BaseModel] | None = model
    each = False
    for part in parts:
        if each:
            each = False
        elif at is not None:
            at, each = model_below(at, part)
    return None if each else at


def _bare(annotation: Any) -> Any:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _bare(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        rest = [kind for kind in get_args(annotation) if kind is not type(None)]
        return _bare(rest[0]) if len(rest) == 1 else None
    return annotation if origin in (None, tuple, Mapping) or _is_mapping(origin) else None


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)
