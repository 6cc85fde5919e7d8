"""Take what a reference names for what it is: an object, a class, an agent function or a factory."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from agentix.errors import ConfigError, PluginBroken
from agentix.registry.importing import blamed
from agentix.registry.kinds import KINDS, Kind, a
from agentix.registry.resolving import Found


def build(
    kind: Kind, found: Found, options: Mapping[str, object], *, where: str, typed: Collection[str] = ()
) -> object:
    """An object of the kind from what was found.

    Raises:
        ConfigError: The options do not fit, or what was found cannot be a plugin of the kind.
        PluginBroken: Its own code failed while it was made.
    """
    value = found.value
    if inspect.isclass(value):
        _require(kind, value, f"the class {value.__name__}", found, where)
        made = _call(kind, value, found, options, where=where, typed=typed)
        _require(kind, made, a(type(made).__name__), found, where)
        return made
    if not inspect.ismodule(value) and not KINDS[kind].missing(value):
        _refuse(options, found, "is an object that was made already", where)
        return value
    if inspect.isfunction(value) or inspect.ismethod(value):
        if inspect.iscoroutinefunction(value) and kind == "agent":
            from agentix.registry.functions import FunctionAgent

            _refuse(options, found, "is a function", where)
            return FunctionAgent.wrap(value, label=found.label, where=where)
        return _from_factory(kind, value, found, options, where=where, typed=typed)
    raise _unfit(kind, found, a(type(value).__name__), value, where)


def config_of(value: object) -> type[Any] | None:
    """The `Config` of a class or a factory, if it has one."""
    return _model(value, "Config")


def inputs_of(value: object) -> type[Any] | None:
    """The `Inputs` of a step or a transport, if it has them before there is an object of it."""
    return _model(value, "Inputs")


def _model(value: object, name: str) -> type[Any] | None:
    from pydantic import BaseModel

    model = getattr(value, name, None)
    return model if inspect.isclass(model) and issubclass(model, BaseModel) else None


def _from_factory(
    kind: Kind,
    value: Callable[..., object],
    found: Found,
    options: Mapping[str, object],
    *,
    where: str,
    typed: Collection[str],
) -> object:
    if inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value):
        raise ConfigError(
            f"{found.label} is an async function; {a(kind)} is an object, a class or a plain function without "
            "arguments that returns one",
            where=where,
        )
    made = _call(kind, value, found, options, where=where, typed=typed)
    if inspect.isclass(made) or KINDS[kind].missing(made):
        raise _unfit(kind, found, f"a function that returned {_article(made)}", made, where)
    return made


def _call(
    kind: Kind,
    maker: Callable[..., object],
    found: Found,
    options: Mapping[str, object],
    *,
    where: str,
    typed: Collection[str],
) -> object:
    config = config_of(maker)
    given: tuple[object, ...] = ()
    if config is not None:
        from agentix.registry.options import configure

        given = (configure(config, options, label=found.label, where=where, typed=typed),)
    else:
        _refuse(options, found, "has no Config", where)
    try:
        inspect.signature(maker).bind(*given)
    except TypeError as exc:
        how = "its config as the only argument" if given else "no arguments"
        raise ConfigError(
            f"{found.label} cannot be called with {how}: {exc}",
            where=where,
            hint=None if given else "a plugin with options has a pydantic model as its attribute Config",
        ) from None
    except ValueError:  # a class in C has no signature to look at
        pass
    with blamed(f"{where}: the {kind} {found.label} was found"):
        return maker(*given)


def _refuse(options: Mapping[str, object], found: Found, why: str, where: str) -> None:
    if options:
        from agentix.registry.options import refuse_options

        refuse_options(options, what=f"{found.label} {why} and", where=where)


def _require(kind: Kind, value: object, what: str, found: Found, where: str) -> None:
    if KINDS[kind].missing(value):
        raise _unfit(kind, found, what, value, where)


def _article(value: object) -> str:
    return f"the class {value.__name__}" if inspect.isclass(value) else a(type(value).__name__)


def _unfit(kind: Kind, found: Found, what: str, value: object, where: str) -> ConfigError | PluginBroken:
    spec = KINDS[kind]
    message = f"{found.label} is {what}, not {a(kind)}; it lacks {', '.join(spec.missing(value)) or 'nothing'}"
    return ConfigError(message, where=where, hint=f"what {a(kind)} has is in agentix.api.{spec.interface}")
