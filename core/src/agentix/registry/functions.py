"""An async function as an agent."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from agentix.errors import AgentFailed, ConfigError
from agentix.models import AgentResult
from agentix.registry.kinds import a

if TYPE_CHECKING:
    from agentix.interfaces import RolloutContext
    from agentix.sandbox import Sandbox

_FORM = "an agent function is async and takes (sandbox, instance, *, model), and context where it wants it"


class FunctionAgent:
    """An agent whose `solve` is a function.

    It returns an `AgentResult`, or its patch, or None where what it changed is the answer.
    """

    def __init__(self, function: Callable[..., Awaitable[object]], *, label: str, passes: frozenset[str]) -> None:
        self._function = function
        self._passes = passes
        self.name = label

    @classmethod
    def wrap(cls, function: Callable[..., Awaitable[object]], *, label: str, where: str) -> FunctionAgent:
        """The agent, if the function's parameters are those of one.

        Raises:
            ConfigError: They are not.
        """
        signature = inspect.signature(function)
        if "call_tool" in signature.parameters:
            raise ConfigError(
                f"{label} is an agent for worlds, {signature}; this version of agentix has no worlds yet",
                where=where,
                hint=_FORM,
            )
        known = ("model", "context")
        anything = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
        passes = frozenset(name for name in known if anything or name in signature.parameters)
        try:
            signature.bind(None, None, **dict.fromkeys(passes))
        except TypeError as exc:
            raise ConfigError(f"{label} takes {signature}: {exc}", where=where, hint=_FORM) from None
        return cls(function, label=label, passes=passes)

    async def solve(
        self,
        sandbox: Sandbox,
        instance: dict[str, Any],
        *,
        model: str | None,
        context: RolloutContext | None = None,
    ) -> AgentResult:
        """Call the function.

        Raises:
            AgentFailed: It returned something else than an `AgentResult`, a patch or None.
        """
        keywords = {"model": model, "context": context}
        result = await self._function(sandbox, instance, **{k: v for k, v in keywords.items() if k in self._passes})
        if result is None or isinstance(result, str):
            return AgentResult(patch=result or "")
        if not isinstance(result, AgentResult):
            raise AgentFailed(
                f"{self.name} returned {a(type(result).__name__)}; an agent returns an AgentResult, a patch or None"
            )
        return result
