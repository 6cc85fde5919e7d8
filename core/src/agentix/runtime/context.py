"""Context variables that travel with Python calls, from the host into the sandbox."""

from __future__ import annotations

from contextvars import ContextVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T")

# Declaring a variable is what this module is for; both sides find it by its name.
_DECLARED: dict[str, ContextVar[Any]] = {}
_ARRIVED: ContextVar[dict[str, Any]] = ContextVar("agentix_arrived")
_NONE: Any = object()


def context_var(name: str, *, default: T = _NONE) -> ContextVar[T]:
    """Declare a context variable whose value, where it is set, is there in Python calls too.

    Declare it at the top level of a module that both sides import. Values are pickled on the host like arguments;
    what a call sets stays in that call.

    Args:
        name: What both sides know it by, such as `acme.trace_id`. Declaring it again gives the same variable.
        default: Its value where it is not set.
    """
    variable = _DECLARED.get(name)
    if variable is None:
        variable = ContextVar(name) if default is _NONE else ContextVar(name, default=default)
        _DECLARED[name] = variable
        arrived = _ARRIVED.get({})
        if name in arrived:
            # Declared by a module that the function itself imports: its value came before it.
            variable.set(arrived[name])
    return variable


def values() -> dict[str, Any]:
    """The variables that are set here."""
    found = {}
    for name, variable in _DECLARED.items():
        value = variable.get(_NONE)
        if value is not _NONE:
            found[name] = value
    return found


def arrive(values: dict[str, Any]) -> None:
    """Set them here."""
    _ARRIVED.set(values)
    for name, value in values.items():
        if name in _DECLARED:
            _DECLARED[name].set(value)
