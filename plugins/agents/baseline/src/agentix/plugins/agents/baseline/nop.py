"""The agent that does nothing: what a task gives without any work."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from agentix.api import AgentResult

if TYPE_CHECKING:
    from agentix.api import Sandbox


class NopAgent:
    """Changes nothing."""

    name = "nop"
    version = version("agentix-rollouts-baseline")
    deterministic = True

    async def solve(self, sandbox: Sandbox, instance: dict[str, Any], *, model: str | None) -> AgentResult:
        """Return at once."""
        return AgentResult(exit_code=0, ended="completed")
