"""What a dataset and an agent can do beyond the least, found out once a run."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from agentix.errors import EnvFailed, UsageError
from agentix.interfaces import (
    Agent,
    ChoosesScoring,
    Dataset,
    Drives,
    HasArtifacts,
    HasInstruction,
    HasLimits,
    HasMcpServers,
    HasSkills,
    Prepares,
    SandboxProvider,
    Scoring,
)
from agentix.models import Limits, McpServer, SandboxConfig
from agentix.runner.wanted import WantedSandboxes

_DATASET = ("image", "setup", "score")
_AGENT = ("solve",)
_PROVIDER = ("session",)


class Roles:
    """The three plugins of a run.

    Raises:
        UsageError: One of them lacks a method that every such plugin has.
    """

    def __init__(self, dataset: Dataset, agent: Agent, provider: SandboxProvider) -> None:
        _require(dataset, "dataset", _DATASET)
        _require(agent, "agent", _AGENT)
        _require(provider, "provider", _PROVIDER)
        self.dataset = dataset
        self.agent = agent
        self.provider = provider
        self.takes_context = _takes_context(agent)
        self.prepares = agent if isinstance(agent, Prepares) else None
        self.drives = dataset if isinstance(dataset, Drives) else None
        version = getattr(agent, "version", None)
        self.agent_version = version if isinstance(version, str) else None
        self.answer_is_patch = getattr(dataset, "answer", "patch") != "state"
        self.wanted = WantedSandboxes(dataset)
        self._scoring = dataset if isinstance(dataset, ChoosesScoring) else None
        self._instruction = dataset if isinstance(dataset, HasInstruction) else None
        self._limits = dataset if isinstance(dataset, HasLimits) else None
        self._mcp_servers = dataset if isinstance(dataset, HasMcpServers) else None
        self._skills = dataset if isinstance(dataset, HasSkills) else None
        self._artifacts = dataset if isinstance(dataset, HasArtifacts) else None

    def config(self, instance: dict[str, Any]) -> SandboxConfig:
        """The sandbox that the dataset wants, with its image."""
        return self.wanted.first(instance)

    def scoring(self, instance: dict[str, Any]) -> Scoring:
        """Where the answer is scored."""
        return "fresh" if self._scoring is None else self._scoring.scoring(instance)

    def limits(self, instance: dict[str, Any]) -> Limits | None:
        """The task's own limits."""
        return None if self._limits is None else self._limits.limits(instance)

    def mcp_servers(self, instance: dict[str, Any]) -> tuple[McpServer, ...]:
        """The tool servers that the task offers.

        Raises:
            EnvFailed: There are some, and the agent cannot be told of them.
        """
        servers = () if self._mcp_servers is None else tuple(self._mcp_servers.mcp_servers(instance))
        # What does the same whatever it is told needs none of them.
        if servers and not self.takes_context and not getattr(self.agent, "deterministic", False):
            names = ", ".join(server.name for server in servers)
            raise EnvFailed(
                f"the task offers MCP servers ({names}), which the agent {type(self.agent).__qualname__} cannot use: "
                "it takes no context",
                detail="unsupported",
                hint="give its `solve` a keyword `context`: context.mcp_servers has them",
            )
        return servers

    def skills_dir(self, instance: dict[str, Any]) -> str | None:
        """Where the agent finds skills that the task brings."""
        return None if self._skills is None else self._skills.skills_dir(instance)

    def artifacts(self, instance: dict[str, Any]) -> Sequence[str]:
        """What to keep from the agent's sandbox."""
        return () if self._artifacts is None else self._artifacts.artifacts(instance)

    def instruction(self, instance: dict[str, Any]) -> str:
        """What to ask of the agent."""
        if self._instruction is not None:
            return self._instruction.instruction(instance)
        for key in ("instruction", "problem_statement"):
            text = instance.get(key)
            if isinstance(text, str) and text:
                return text
        return ""


def _require(plugin: object, kind: str, methods: tuple[str, ...]) -> None:
    missing = [name for name in methods if not callable(getattr(plugin, name, None))]
    if isinstance(plugin, type):
        raise UsageError(
            f"the {kind} {plugin.__qualname__} is a class, not an object",
            hint=f"create one first: {kind}={plugin.__qualname__}(…)",
        )
    if missing:
        contract = "SandboxProvider" if kind == "provider" else kind.capitalize()
        raise UsageError(
            f"the {kind} {type(plugin).__qualname__} has no {' and no '.join(missing)}",
            hint=f"see agentix.runner.{contract} for what it needs",
        )


def _takes_context(agent: Agent) -> bool:
    try:
        parameter = inspect.signature(agent.solve).parameters.get("context")
    except (TypeError, ValueError):
        return False
    return parameter is not None and parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
