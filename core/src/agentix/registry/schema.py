"""The JSON schema of a plugin's options, with the docstrings of its fields as descriptions."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import TYPE_CHECKING, Any, get_args

if TYPE_CHECKING:
    from pydantic import BaseModel


def options_schema(config: type[BaseModel]) -> dict[str, Any]:
    """The schema of a model and of those in it; a description that a model gives itself goes before a docstring."""
    schema = config.model_json_schema()
    nested = schema.get("$defs", {})
    for model in _models_in(config):
        at = schema if model is config else nested.get(model.__name__, {})
        documented = _field_docstrings(model)
        for name, field in model.model_fields.items():
            alias = field.validation_alias if isinstance(field.validation_alias, str) else field.alias
            option = at.get("properties", {}).get(alias or name)
            if option is not None and name in documented:
                option.setdefault("description", documented[name])
    return schema


def _models_in(config: type[BaseModel]) -> list[type[BaseModel]]:
    """A model, and every one that a field of it can hold."""
    from pydantic import BaseModel

    found: list[type[BaseModel]] = []
    left: list[Any] = [config]
    while left:
        kind = left.pop()
        left += get_args(kind)
        if inspect.isclass(kind) and issubclass(kind, BaseModel) and kind not in found:
            found.append(kind)
            left += [field.annotation for field in kind.model_fields.values()]
    return found


def _field_docstrings(config: type) -> dict[str, str]:
    found: dict[str, str] = {}
    for base in reversed(config.__mro__):
        if base.__module__.partition(".")[0] in ("builtins", "pydantic"):
            continue  # nothing of a plugin's is there, and reading it takes long
        try:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except (OSError, TypeError, SyntaxError, ValueError):
            continue  # made without source, as in a notebook
        if isinstance(tree, ast.ClassDef):
            for field, doc in pairwise(tree.body):
                if (
                    isinstance(field, ast.AnnAssign)
                    and isinstance(field.target, ast.Name)
                    and isinstance(doc, ast.Expr)
                    and isinstance(doc.value, ast.Constant)
                    and isinstance(doc.value.value, str)
                ):
                    found[field.target.id] = " ".join(doc.value.value.split())
    return found
