"""From the plain data that a sandbox sends to the value that a function's return annotation promises."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agentix.errors import ResultError, UsageError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_ITERATORS = (
    collections.abc.AsyncGenerator,
    collections.abc.AsyncIterable,
    collections.abc.AsyncIterator,
    collections.abc.Generator,
    collections.abc.Iterable,
    collections.abc.Iterator,
)


@functools.lru_cache(maxsize=4096)
def rebuilder(function: Callable[..., Any], *, iterate: bool) -> Callable[[Any], Any]:
    """What makes a function's results of plain data; without a return annotation, nothing.

    Args:
        function: Of the host.
        iterate: Whether it is for each item of what the function returns.

    Raises:
        UsageError: The annotation cannot be resolved, or is of a type that cannot be made of plain data.
    """
    annotation = _annotation(function)
    if iterate:
        annotation = _item(annotation)
    if annotation in (Any, object, typing.NoReturn, typing.Never):
        return _as_it_is
    adapter = _adapter(function, _eager(annotation))
    name = function.__qualname__

    def rebuild(value: Any) -> Any:
        from pydantic import ValidationError

        try:
            return adapter.validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = "".join(f"[{step}]" if isinstance(step, int) else f"[{step[:100]!r}]" for step in first["loc"])
            raise ResultError(
                f"{name} returned something else than its annotation {_shown(annotation)} says:"
                f" result{place}: {first['msg'][:1000]}"
            ) from None

    return rebuild


def _as_it_is(value: Any) -> Any:
    return value


def _annotation(function: Callable[..., Any]) -> Any:
    annotation = getattr(function, "__annotations__", {}).get("return", Any)
    inner = inspect.unwrap(function)
    try:
        # Alone, so that parameters of types which only a type checker imports do no harm.
        alone = types.SimpleNamespace(__annotations__={"return": annotation})
        hints = typing.get_type_hints(alone, getattr(inner, "__globals__", {}), include_extras=True)
    except Exception as error:
        raise UsageError(
            f"the return annotation {annotation!r} of {function.__qualname__} cannot be resolved:"
            f" {type(error).__name__}: {error}",
            hint="import what it names at the top of the module, outside of `if TYPE_CHECKING`",
        ) from error
    return hints["return"]


def _item(annotation: Any) -> Any:
    if typing.get_origin(annotation) in _ITERATORS:
        arguments = typing.get_args(annotation)
        return arguments[0] if arguments else Any
    if typing.get_origin(annotation) in (list, tuple, set, frozenset, collections.abc.Sequence):
        return typing.get_args(annotation)[0]
    return Any


def _eager(annotation: Any) -> Any:
    """An iterable that is there already is a list: pydantic would check it while it is iterated over."""
    if typing.get_origin(annotation) in (collections.abc.Iterable, collections.abc.Collection):
        return list[typing.get_args(annotation)]  # type: ignore[misc]
    return annotation


def _adapter(function: Callable[..., Any], annotation: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        return TypeAdapter(annotation)
    except (PydanticUserError, NameError, TypeError) as error:
        raise UsageError(
            f"the return annotation {_shown(annotation)} of {function.__qualname__} cannot be made of plain data:"
            f" {str(error).splitlines()[0]}",
            hint="return JSON types, bytes, dataclasses, pydantic models, enums, dates, paths, tuples or sets of them",
        ) from error


def _shown(annotation: Any) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else repr(annotation)
