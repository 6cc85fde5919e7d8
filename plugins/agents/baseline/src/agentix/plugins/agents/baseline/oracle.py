"""The agent that knows the answer, since the dataset tells it."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from agentix.api import AgentResult, EnvFailed, HasReference, RolloutContext

if TYPE_CHECKING:
    from agentix.api import Sandbox


class OracleAgent:
    """Plays the dataset's reference answer: what a task gives to one who solves it."""

    name = "oracle"
    version = version("agentix-rollouts-baseline")
    deterministic = True

    async def solve(
        self,
        sandbox: Sandbox,
        instance: dict[str, Any],
        *,
        model: str | None,
        context: RolloutContext | None = None,
    ) -> AgentResult:
        """Let the dataset solve the instance.

        Raises:
            EnvFailed: The dataset has no reference answers, or none to this instance.
        """
        dataset = None if context is None else context.dataset
        if not isinstance(dataset, HasReference):
            raise EnvFailed(
                f"the dataset {type(dataset).__name__} has no reference answers, so oracle cannot solve it",
                detail="no_reference",
                hint="choose another agent, or give the dataset an async method reference(sandbox, instance)",
            )
        return await dataset.reference(sandbox, instance)
