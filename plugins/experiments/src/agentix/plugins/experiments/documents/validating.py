"""From a document as it was written to its model; what does not fit is told in the file's own words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from agentix.plugins.experiments.documents.nodes import Branch, MappingNode, Node, Scalar, follow, place_of
from agentix.plugins.experiments.documents.paths import Part, path_text
from agentix.plugins.experiments.documents.problems import Problem, nearest
from agentix.plugins.experiments.documents.pruning import pruned
from agentix.plugins.experiments.documents.shapes import keys_of, model_at, model_below
from agentix.plugins.experiments.documents.wording import expected

MAX_ROUNDS = 16
"""What is cut out may leave a gap that makes the part around it wrong, and so on up."""

Model = TypeVar("Model", bound=BaseModel)


def validated(
    model: type[Model], node: Node, problems: list[Problem], *, what: str, prefix: tuple[Part, ...] = ()
) -> tuple[Model | None, Node]:
    """Read a document.

    Args:
        model: What it has to be.
        node: The document, short forms written out.
        problems: Where all that does not fit is told.
        what: How errors call it.
        prefix: Where it stands in its document.

    Returns:
        The model without all that does not fit, `None` where nothing is left, and the document that it was read from.
    """
    read, errors = _read(model, node)
    empty = dict(_empty(model, node, ()))
    for loc, line in empty.items():
        path = place_of(node, loc).path
        message = "has no value; give one or leave the key out"
        problems.append(Problem(file=node.file, line=line, path=_below(prefix, path), message=message))
    for loc, error in errors:
        value = _value(node, loc)
        if loc not in empty and not (isinstance(value, Scalar) and value.broken and error["type"] != "extra_forbidden"):
            problems.append(_problem(model, node, loc, error, what=what, prefix=prefix))
    wrong: set[tuple[Part, ...]] = {*empty, *(loc for loc, _ in errors)}
    for _ in range(MAX_ROUNDS):
        text = {loc for loc, error in errors if error["type"] == "string_type" and loc not in empty}
        if not wrong or (rest := pruned(node, wrong, as_text=text)) is None:
            break
        node = rest
        read, errors = _read(model, node)
        wrong = {loc for loc, _ in errors}
    return (None if wrong else read), node


def _read(model: type[Model], node: Node) -> tuple[Model | None, list[tuple[tuple[Part, ...], dict[str, Any]]]]:
    try:
        return model.model_validate_json(json.dumps(node.data()), by_alias=True, by_name=False), []
    except ValidationError as error:
        found = [(tuple(p for p in one["loc"] if p != "[key]"), dict(one)) for one in error.errors(include_url=False)]
        return None, [(loc, one) for loc, one in found if not _follows(_value(node, loc), str(one["type"]))]


def _empty(model: type[BaseModel], node: Node, path: tuple[Part, ...]) -> Iterator[tuple[tuple[Part, ...], int]]:
    """Keys of models that were given without a value."""
    if not isinstance(node, MappingNode):
        return
    keys = keys_of(model)
    for entry in node.entries:
        if entry.key not in keys:
            continue
        here = (*path, entry.key)
        if isinstance(entry.node, Scalar) and entry.node.value is None:
            yield here, entry.line
        below, each = model_below(model, entry.key)
        if below is not None and not each:
            yield from _empty(below, entry.node, here)
        elif below is not None and isinstance(entry.node, Branch):
            for item in entry.node.entries:
                yield from _empty(below, item.node, (*here, item.key))


def _problem(
    model: type[BaseModel],
    root: Node,
    loc: tuple[Part, ...],
    error: dict[str, Any],
    *,
    what: str,
    prefix: tuple[Part, ...],
) -> Problem:
    place = place_of(root, loc)
    line, near = place.line, None
    node = _value(root, loc)
    if error["type"] == "extra_forbidden":
        owner = model_at(model, loc[:-1])
        keys = keys_of(owner) if owner is not None else {}
        near = nearest(str(loc[-1]), keys)
        message = "there is no such key" + ("" if near else f"; there are {', '.join(keys)}")
    elif error["type"] == "missing":
        message = f"{what} needs this key" if len(loc) == 1 else "this key is needed"
    else:
        message = expected(error, node, model_at(model, loc))
        if error["type"] == "literal_error" and isinstance(node, Scalar):
            near = nearest(node.text, _literals(error))
    return Problem(file=place.file, line=line, path=_below(prefix, place.path), message=message, nearest=near)


def _value(root: Node, loc: tuple[Part, ...]) -> Node | None:
    steps = list(follow(root, loc))
    if len(steps) < len(loc):
        return None
    return steps[-1][1].node if steps else root


def _follows(node: Node | None, kind: str) -> bool:
    """Whether a list only counts as empty because none of its items is valid."""
    return kind == "too_short" and isinstance(node, Branch) and bool(node.entries)


def _literals(error: dict[str, Any]) -> list[str]:
    return [word.strip("' ") for word in str(error["ctx"]["expected"]).replace(" or ", ",").split(",")]


def _below(prefix: tuple[Part, ...], path: str) -> str:
    return ".".join(part for part in (path_text(prefix), path) if part)
