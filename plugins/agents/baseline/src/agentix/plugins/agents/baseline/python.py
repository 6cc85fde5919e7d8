"""Host code of the user's as an agent."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from agentix.api import AgentFailed, AgentResult, ConfigError, Prepares, RolloutContext, load

if TYPE_CHECKING:
    from agentix.api import Sandbox

_WHERE = "--agent-opt path"


class PythonConfig(BaseModel):
    """Options of the agent `python`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str = Field(min_length=1)
    """`./agent.py[:attr]` or `module:attr`: an object with `solve`, a class, or an async function
    `(sandbox, instance, *, model)` that may take `context` too."""


class PythonAgent:
    """Runs the user's Python on this machine; it is given the sandbox to work in.

    The code returns an `AgentResult`, or its patch as text, or None where what it changed in the sandbox is the
    answer.
    """

    name = "python"
    Config = PythonConfig

    def __init__(self, config: PythonConfig) -> None:
        if ":" not in config.path and not config.path.endswith(".py"):
            raise ConfigError(
                f"{config.path!r} is no Python code", where=_WHERE, hint="write ./agent.py[:attr] or module:attr"
            )
        self._agent = load("agent", config.path, where=_WHERE)
        parameters = inspect.signature(self._agent.solve).parameters
        self._takes_context = "context" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        self.deterministic = bool(getattr(self._agent, "deterministic", False))
        self.version = str(getattr(self._agent, "version", "unknown"))

    async def prepare(self, sandbox: Sandbox) -> None:
        """Prepare, where the user's agent does."""
        if isinstance(self._agent, Prepares):
            await self._agent.prepare(sandbox)

    async def solve(
        self,
        sandbox: Sandbox,
        instance: dict[str, Any],
        *,
        model: str | None,
        context: RolloutContext | None = None,
    ) -> AgentResult:
        """Run the user's code.

        Raises:
            AgentFailed: It returned something else than an `AgentResult`, a patch or None.
        """
        more: dict[str, Any] = {"context": context} if self._takes_context else {}
        result: object = await self._agent.solve(sandbox, instance, model=model, **more)
        if result is None or isinstance(result, str):
            return AgentResult(patch=result or "")
        if not isinstance(result, AgentResult):
            raise AgentFailed(
                f"solve returned a {type(result).__name__}; an agent returns an AgentResult, a patch or None",
                detail="invalid_result",
            )
        return result
