"""From a reference to what it names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agentix.errors import ConfigError, PluginAmbiguous, PluginNotFound
from agentix.registry.files import import_file, import_module
from agentix.registry.importing import blamed, import_plugin
from agentix.registry.info import PluginInfo
from agentix.registry.kinds import PLANNED, PUBLISHED, TAKES_PATHS, AnyKind, Kind, a
from agentix.registry.references import EntryRef, FileRef, ModuleRef, parse_reference
from agentix.registry.snapshot import normalized, snapshot


@dataclass(frozen=True)
class Found:
    """What a reference names, and how to call it in an error."""

    value: object
    label: str


def resolve(kind: Kind, text: str, *, where: str) -> Found:
    """Find and import what a reference names.

    Raises:
        ConfigError: The reference is malformed, or its file or attribute does not exist.
        PluginNotFound: No such entry point or module.
        PluginAmbiguous: Several distributions have the entry point.
        PluginBroken: Importing it failed.
        PluginIncompatible: It was built for another agentix.
    """
    reference = parse_reference(kind, text, where=where)
    if isinstance(reference, EntryRef):
        info = find(kind, reference.name, distribution=reference.distribution, where=where)
        return Found(import_plugin(info), info.label)
    if isinstance(reference, FileRef):
        return _from_file(reference, text, where=where)
    return _from_module(kind, reference, text, where=where)


def find(kind: AnyKind, name: str, *, distribution: str | None = None, where: str) -> PluginInfo:
    """The one installed plugin of that name, not imported.

    Raises:
        PluginNotFound: There is none.
        PluginAmbiguous: There are several, and no distribution is given.
    """
    all_of_kind = snapshot().of(kind)
    named = [info for info in all_of_kind if info.name == name]
    matches = [i for i in named if distribution is None or normalized(i.distribution) == normalized(distribution)]
    if not matches:
        raise _not_found(kind, name, distribution, named, all_of_kind, where)
    if len(matches) > 1:
        owners = "; ".join(f"{i.distribution} {i.version} ({i.target})" for i in matches)
        picks = ", ".join(i.exact for i in matches)
        raise PluginAmbiguous(
            f"{where}: the {kind} {name!r} is provided by several: {owners}", hint=f"pick one: {picks}"
        )
    return matches[0]


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant."""
    matches = difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)
    return matches[0] if matches else None


def _not_found(
    kind: AnyKind,
    name: str,
    distribution: str | None,
    named: list[PluginInfo],
    all_of_kind: list[PluginInfo],
    where: str,
) -> PluginNotFound:
    if distribution is not None:
        has = f"{name!r} is provided by {', '.join(i.distribution for i in named)}" if named else None
        if Path(distribution, name).exists():
            has = TAKES_PATHS.get(kind, has)
        return PluginNotFound(
            f"{where}: no distribution {distribution!r} with the {kind} {name!r} is installed", hint=has
        )
    hints = []
    elsewhere = [i for i in snapshot().plugins if i.name == name]
    meant = nearest(name, {i.name for i in all_of_kind} | {n for k, n in PUBLISHED if k == kind})
    if (kind, name) in PUBLISHED:
        hints.append(f"pip install {PUBLISHED[kind, name]}")
    elif (kind, name) in PLANNED:
        hints.append(f"there is no {kind} {name} for this version of agentix yet")
    elif elsewhere:
        hints.append(f"{name!r} is {a(elsewhere[0].kind)}")
    elif meant is not None:
        install = PUBLISHED.get((kind, meant)) if meant not in {i.name for i in all_of_kind} else None
        hints.append(f"did you mean {meant!r}?" + (f" (pip install {install})" if install else ""))
    hints.append("installed: " + (", ".join(sorted({i.name for i in all_of_kind})) or "none"))
    return PluginNotFound(f"{where}: no {kind} is named {name!r}", hint="; ".join(hints))


def _from_file(reference: FileRef, text: str, *, where: str) -> Found:
    if not reference.path.is_file():
        raise ConfigError(f"there is no file {reference.path}", where=where)
    with blamed(f"{where}: {reference.path} exists"):
        module = import_file(reference.path)
    return Found(_attribute(module, reference.attr, str(reference.path), where=where), text)


def _from_module(kind: Kind, reference: ModuleRef, text: str, *, where: str) -> Found:
    with blamed(f"{where}: the module {reference.module} exists"):
        try:
            module = import_module(reference.module)
        except ModuleNotFoundError as exc:
            if exc.name is None or not f"{reference.module}.".startswith(f"{exc.name}."):
                raise
            raise PluginNotFound(
                f"{where}: there is no module {exc.name!r}",
                hint=f"a file is given as ./{reference.module.replace('.', '/')}.py:{reference.attr}",
            ) from None
    return Found(_attribute(module, reference.attr, reference.module, where=where), text)


def _attribute(module: object, attr: str, place: str, *, where: str) -> object:
    value = module
    for part in attr.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            public = [name for name in vars(module) if not name.startswith("_")]
            meant = nearest(attr, public)
            hint = f"did you mean {meant!r}?" if meant else None
            raise ConfigError(f"{place} has no attribute {attr!r}", where=where, hint=hint) from None
    return value
