"""What the agents of a matrix are: a configured command or a plugin, and whether one run of it says everything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from agentix.api import AgentixError, AgentUse, PluginNotFound, list_plugins, load, plugin_label
from agentix.plugins.experiments.commands import Command, commands_of
from agentix.plugins.experiments.documents import AgentSpec, Submission, nearest

COMMAND_PREFIX = "agent_"
"""What the name of a command that is an agent starts with."""


@dataclass(frozen=True, kw_only=True)
class AgentKind:
    """What stands behind the name of an agent."""

    kind: Literal["command", "plugin", "unknown"]
    label: str
    """How errors and records call it: a plugin with distribution and version, or a configured command."""
    deterministic: bool = False
    """Whether every run of it on a case is the same, so that one is enough."""
    problem: str | None = None
    """Why it cannot be loaded here; an executor of its own may know it all the same."""
    near: str | None = None
    """The name that may have been meant."""
    notice: str | None = None
    """What the user should know of the choice."""


def agent_kinds(submission: Submission) -> tuple[AgentKind, ...]:
    """What each agent of the matrix is, in its order.

    A configured command `agent_<name>` wins over a plugin of that name.
    """
    commands = {
        name.removeprefix(COMMAND_PREFIX) for name in commands_of(submission) if name.startswith(COMMAND_PREFIX)
    }
    plugins = {info.name: info.label for info in list_plugins("agent")}
    return tuple(
        _kind(agent, commands, plugins, where=f"matrix.agents[{number}]")
        for number, agent in enumerate(submission.experiment.matrix.agents)
    )


def agent_use(spec: AgentSpec, commands: Mapping[str, Command]) -> AgentUse:
    """An agent of the matrix as executors get it.

    Args:
        spec: It.
        commands: The configured commands.
    """
    command = commands.get(COMMAND_PREFIX + spec.name)
    return AgentUse(
        name=spec.id or spec.name,
        ref=spec.name,
        options=dict(spec.options),
        command=None if command is None else command.shell_line(),
    )


def _kind(agent: AgentSpec, commands: set[str], plugins: Mapping[str, str], *, where: str) -> AgentKind:
    if agent.name in commands:
        command = f"the command {COMMAND_PREFIX}{agent.name}"
        notice = None
        if agent.name in plugins:
            notice = f"agent {agent.name}: {command} is used, not the installed plugin {plugins[agent.name]}"
        return AgentKind(kind="command", label=command, notice=notice)
    try:
        plugin = load("agent", agent.name, agent.options, where=where, typed=agent.options)
    except PluginNotFound:
        known = {*commands, *plugins}
        return AgentKind(
            kind="unknown",
            label=agent.name,
            problem=f"there is neither a command {COMMAND_PREFIX}{agent.name} nor an installed agent {agent.name!r}",
            near=nearest(agent.name, known),
        )
    except AgentixError as error:
        return AgentKind(kind="plugin", label=agent.name, problem=str(error))
    return AgentKind(
        kind="plugin", label=plugin_label(plugin), deterministic=bool(getattr(plugin, "deterministic", False))
    )
