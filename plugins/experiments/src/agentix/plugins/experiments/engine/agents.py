"""The agents of the matrix: what they are called, and how they are had."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from agentix.api import LLM, Agent, AgentUse, list_plugins, load
from agentix.cli.api import describe
from agentix.plugins.experiments.commands import Command
from agentix.plugins.experiments.documents import AgentSpec, LLMSpec
from agentix.plugins.experiments.engine.models import Keys, llm_of
from agentix.plugins.experiments.plan.agents import COMMAND_PREFIX, agent_use
from agentix.plugins.experiments.steps.executors.environment import llm_environment

COMMAND_AGENT = "command"
"""The plugin that runs a shell line in the sandbox."""
_TOLD = ("api", "base_url", "parameters")


class Agents:
    """Makes agents, each with its model, and keeps one of a kind.

    Args:
        commands: The configured commands; `agent_<name>` is the agent `<name>`.
        keys: Of the models.
    """

    def __init__(self, commands: Mapping[str, Command], keys: Keys) -> None:
        self._commands = commands
        self._keys = keys
        self._made: dict[tuple[AgentSpec | str, str | None, str | None], Agent] = {}

    def use(self, spec: AgentSpec) -> AgentUse:
        """The agent as the experiment names it."""
        return agent_use(spec, self._commands)

    def load(self, spec: AgentSpec, llm: LLMSpec | None, *, where: str) -> Agent:
        """The agent as an object; with a model that needs a key, once that was looked up.

        Raises:
            UsageError: There is no such agent, or its options are wrong.
        """
        key = None if llm is None else self._keys.known(llm)
        name = (spec.model_dump_json(), None if llm is None else llm.name, key)
        if name not in self._made:
            self._made[name] = self._load(spec, None if llm is None else llm_of(llm), key, where=where)
        return self._made[name]

    def _load(self, spec: AgentSpec, llm: LLM | None, key: str | None, *, where: str) -> Agent:
        command = self._commands.get(COMMAND_PREFIX + spec.name)
        if command is None:
            return load("agent", spec.name, {**told(spec, llm), **spec.options}, where=where, typed=spec.options)
        env = {name: value for name, value in llm_environment(llm).items() if value}
        if key is not None:
            env["LLM_API_KEY"] = key
        options: dict[str, Any] = dict(spec.options)
        options["env"] = {**env, **options.get("env", {})}
        if command.form == "uses":
            options["script"] = str(command.file)
        else:
            options["command"] = list(command.arguments())
        seen = [n for n in command.env if n in os.environ and n not in options["env"]]
        options["pass_env"] = list(dict.fromkeys([*options.get("pass_env", []), *seen]))
        return load("agent", COMMAND_AGENT, options, where=where, typed=options)


def told(spec: AgentSpec, llm: LLM | None) -> dict[str, Any]:
    """What an agent is told of its model besides the model's name: as much as it has options for."""
    if llm is None:
        return {}
    takes = options_of(spec.name)
    values = {"api": llm.api, "base_url": llm.base_url, "parameters": dict(llm.parameters) or None}
    return {name: value for name, value in values.items() if name in takes and value is not None}


def untold(spec: AgentSpec, llm: LLM) -> tuple[str, ...]:
    """Keys of a model that a plugin has no option for, so that they change nothing."""
    takes = options_of(spec.name)
    return tuple(name for name in _TOLD if getattr(llm, name) and name not in takes)


def options_of(ref: str) -> frozenset[str]:
    """The options that an agent's plugin takes."""
    if not any(info.name == ref for info in list_plugins("agent")):
        return frozenset()
    schema = describe("agent", ref).schema or {}
    return frozenset(schema.get("properties", {}))
