"""The entry points of everything installed, read once a process and without importing any of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import Distribution, distributions

from agentix.registry.compatibility import API_GROUP, incompatibility
from agentix.registry.info import PluginInfo
from agentix.registry.kinds import KINDS, AnyKind, a


def normalized(distribution: str) -> str:
    """The form of a distribution's name in which two spellings of it are equal."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


@dataclass(frozen=True)
class Snapshot:
    """Every plugin, sorted, and what could not be read."""

    plugins: tuple[PluginInfo, ...]
    problems: tuple[str, ...] = ()

    def of(self, kind: AnyKind | None) -> list[PluginInfo]:
        """The plugins of one kind, or all."""
        return [info for info in self.plugins if kind is None or info.kind == kind]


@cache
def snapshot() -> Snapshot:
    """The snapshot of this process."""
    return read_snapshot()


def read_snapshot(*, path: Sequence[str] | None = None) -> Snapshot:
    """Read what is installed now.

    Args:
        path: Directories to look in instead of `sys.path`.
    """
    found: list[PluginInfo] = []
    problems: list[str] = []
    seen: set[str] = set()
    for dist in distributions() if path is None else distributions(path=list(path)):
        try:
            text = dist.read_text("entry_points.txt") or ""
            if "agentix." not in text:
                continue
            name = dist.metadata["Name"] or "unknown"
            # A second copy of a distribution (an editable install and a wheel) is not a conflict: like
            # the import system, take the first on the path.
            if normalized(name) not in seen:
                seen.add(normalized(name))
                found += _plugins_of(dist, name)
        except Exception as exc:  # one damaged distribution must not hide all others
            problems.append(f"the metadata of {_place(dist)} cannot be read: {type(exc).__name__}: {exc}")
    return Snapshot(tuple(_judged(found)), tuple(problems))


def _plugins_of(dist: Distribution, name: str) -> Iterator[PluginInfo]:
    points = list(dist.entry_points)
    api = tuple(point.name for point in points if point.group == API_GROUP)
    requires = tuple(dist.requires or ())
    version = dist.metadata["Version"] or "unknown"
    for kind, spec in KINDS.items():
        for point in sorted({point for point in points if point.group == spec.group}):
            yield PluginInfo(
                kind=kind,
                name=point.name,
                target=point.value,
                distribution=name,
                version=version,
                requires=requires,
                plugin_api=api,
            )


def _judged(found: list[PluginInfo]) -> Iterator[PluginInfo]:
    for info in sorted(found, key=lambda i: (list(KINDS).index(i.kind), i.name, normalized(i.distribution))):
        rivals = [i for i in found if (i.kind, i.name) == (info.kind, info.name) and i is not info]
        if (reason := incompatibility(info)) is not None:
            yield replace(info, state="incompatible", cause=reason)
        elif rivals and info.kind not in ("cli", "hooks"):
            others = ", ".join(f"{i.distribution} {i.version}" for i in rivals)
            yield replace(info, state="ambiguous", cause=f"{others} has {a(info.kind)} of this name too")
        else:
            yield info


def _place(dist: Distribution) -> str:
    try:
        return str(dist.locate_file("")) + f" ({dist.metadata['Name']})"
    except Exception:  # the metadata is what is damaged
        return str(getattr(dist, "_path", dist))
