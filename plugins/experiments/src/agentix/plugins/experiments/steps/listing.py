"""What steps there are, from every plugin."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentix.api import (
    AgentixError,
    Executes,
    PluginInfo,
    Publishes,
    Redacts,
    Reports,
    Scope,
    Step,
    list_plugins,
    load,
    options_schema,
)
from agentix.plugins.experiments.steps.finding import step_name
from agentix.plugins.experiments.steps.transport_step import TransportStep


@dataclass(frozen=True, kw_only=True)
class InstalledStep:
    """One step that is installed."""

    name: str
    plugin: str
    """Distribution and version."""
    scopes: tuple[str, ...] = ()
    executes: bool = False
    reports: bool = False
    publishes: bool = False
    redacts: bool = False
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
            "publishes": self.publishes,
            "redacts": self.redacts,
            "doc": self.doc,
            "inputs": dict(self.schema),
            "broken": self.broken,
        }


def installed_steps() -> list[InstalledStep]:
    """All of them by name, those of transports too; one that cannot be loaded stops nobody else."""
    steps = {info.name for info in list_plugins("step")}
    found = [_listed(info, info.name, _step) for info in list_plugins("step")]
    for info in list_plugins("transport"):
        if (name := step_name(info.name)) not in steps:
            found.append(_listed(info, name, _transport))
    return sorted(found, key=lambda step: step.name)


def _documentation(step: Step) -> str:
    """What a step says of itself; that of a transport is the transport's."""
    return inspect.getdoc(type(step.transport if isinstance(step, TransportStep) else step)) or ""


def _step(info: PluginInfo, name: str) -> Step:
    return load("step", info.exact, where=name)


def _transport(info: PluginInfo, name: str) -> Step:
    return TransportStep(load("transport", info.exact, where=name), name=name)


def _listed(info: PluginInfo, name: str, made: Callable[[PluginInfo, str], Step]) -> InstalledStep:
    plugin = f"{info.distribution} {info.version}"
    try:
        step = made(info, name)
    except AgentixError as error:
        return InstalledStep(name=name, plugin=plugin, broken=str(error))
    return InstalledStep(
        name=name,
        plugin=plugin,
        scopes=tuple(scope.value for scope in Scope if scope in step.scopes),
        executes=isinstance(step, Executes) and bool(step.executes),
        reports=isinstance(step, Reports) and bool(step.reports),
        publishes=isinstance(step, Publishes) and bool(step.publishes),
        redacts=isinstance(step, Redacts) and bool(step.redacts),
        doc=_documentation(step),
        schema=options_schema(step.Inputs),
    )
