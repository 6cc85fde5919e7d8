"""The JSON schema of a plugin's options, with the docstrings of its fields as descriptions."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel


def options_schema(config: type[BaseModel]) -> dict[str, Any]:
    """The schema; a description that the model gives itself goes before a docstring."""
    schema = config.model_json_schema()
    documented = _field_docstrings(config)
    for name, field in config.model_fields.items():
        option = schema.get("properties", {}).get(field.alias or name)
        if option is not None and name in documented:
            option.setdefault("description", documented[name])
    return schema


def _field_docstrings(config: type) -> dict[str, str]:
    found: dict[str, str] = {}
    for base in reversed(config.__mro__):
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
