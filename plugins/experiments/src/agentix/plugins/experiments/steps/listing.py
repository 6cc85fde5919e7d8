"""What steps there are, from every plugin."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentix.api import AgentixError, Executes, Reports, Scope, list_plugins, load, options_schema


@dataclass(frozen=True, kw_only=True)
class InstalledStep:
    """One step that is installed."""

    name: str
    plugin: str
    """Distribution and version."""
    scopes: tuple[str, ...] = ()
    executes: bool = False
    reports: bool = False
    doc: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)
    """Of its inputs."""
    broken: str | None = None
    """Why it cannot be loaded."""

    @property
    def summary(self) -> str:
        """The first paragraph of what it says of itself, on one line."""
        return " ".join(self.doc.split("\n\n", 1)[0].split())

    def to_data(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "name": self.name,
            "plugin": self.plugin,
            "scopes": list(self.scopes),
            "executes": self.executes,
            "reports": self.reports,
            "doc": self.doc,
            "inputs": dict(self.schema),
            "broken": self.broken,
        }


def installed_steps() -> list[InstalledStep]:
    """All of them by name; one that cannot be loaded stops nobody else."""
    found = []
    for info in sorted(list_plugins("step"), key=lambda info: info.name):
        plugin = f"{info.distribution} {info.version}"
        try:
            step = load("step", info.exact, where=info.name)
        except AgentixError as error:
            found.append(InstalledStep(name=info.name, plugin=plugin, broken=str(error)))
            continue
        found.append(
            InstalledStep(
                name=info.name,
                plugin=plugin,
                scopes=tuple(scope.value for scope in Scope if scope in step.scopes),
                executes=isinstance(step, Executes) and bool(step.executes),
                reports=isinstance(step, Reports) and bool(step.reports),
                doc=inspect.getdoc(type(step)) or "",
                schema=options_schema(step.Inputs),
            )
        )
    return found
