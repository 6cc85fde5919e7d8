"""What is installed: listed without importing anything, described by importing one."""

from __future__ import annotations

import inspect
from dataclasses import replace

from agentix.errors import PluginError
from agentix.registry.building import build, config_of, inputs_of
from agentix.registry.importing import import_plugin, said
from agentix.registry.info import PluginInfo
from agentix.registry.kinds import KINDS, AnyKind, a
from agentix.registry.resolving import Found, find
from agentix.registry.schema import options_schema
from agentix.registry.snapshot import snapshot


def plugins(kind: AnyKind | None = None) -> list[PluginInfo]:
    """Every installed plugin, or those of one kind, sorted; none of them is imported."""
    return snapshot().of(kind)


def describe(kind: AnyKind, name: str) -> PluginInfo:
    """Import one plugin and say what it is; one that cannot be loaded is described as broken.

    Args:
        kind: Which kind it is.
        name: Its name, or `distribution/name`.

    Raises:
        PluginNotFound: There is none.
        PluginAmbiguous: There are several.
    """
    distribution, _, bare = name.rpartition("/")
    return inspected(find(kind, bare, distribution=distribution or None, where=f"{kind}:{name}"))


def inspected(info: PluginInfo) -> PluginInfo:
    """The same plugin, with what importing it showed."""
    if info.state == "incompatible":
        return info
    try:
        value = import_plugin(info)
    except PluginError as exc:
        cause = said(exc.__cause__) if exc.__cause__ is not None else exc.message
        return replace(info, state="broken", cause=cause)
    missing = KINDS[info.kind].missing(value) if not inspect.isfunction(value) else []
    config = config_of(value)
    inputs = inputs_of(value) if info.kind in ("step", "transport") else None
    isolation = getattr(value, "isolation", None)
    return replace(
        info,
        state="broken" if missing else info.state if info.state == "ambiguous" else "ok",
        cause=f"it is not {a(info.kind)}: it lacks {', '.join(missing)}" if missing else info.cause,
        doc=inspect.getdoc(value),
        capabilities=_capabilities(info, value),
        isolation=inspect.cleandoc(isolation) if isinstance(isolation, str) else None,
        schema=options_schema(config) if config is not None else None,
        inputs=options_schema(inputs) if inputs is not None else None,
    )


def label_of(plugin: object) -> str:
    """How errors and records call a loaded plugin: `name (distribution version)`, else its type."""
    kind_of = type(plugin)
    for info in snapshot().plugins:
        module, _, attr = info.target.partition(":")
        if attr.strip() == kind_of.__qualname__ and f"{kind_of.__module__}.".startswith(f"{module.strip()}."):
            return info.label
    own = getattr(plugin, "name", None)
    return own if isinstance(own, str) and own else kind_of.__qualname__


def _capabilities(info: PluginInfo, value: object) -> tuple[str, ...]:
    declared = getattr(value, "capabilities", ())
    if info.kind == "provider" and not (isinstance(declared, set | frozenset) and declared):
        # What a provider can do may depend on this machine; only an object of it knows.
        try:
            made = build("provider", Found(value, info.label), {}, where=info.name)
            declared = getattr(made, "capabilities", ())
        except Exception:  # it needs options, or cannot work here: nothing is known
            return ()
    return tuple(sorted(str(c) for c in declared)) if isinstance(declared, set | frozenset | tuple | list) else ()
