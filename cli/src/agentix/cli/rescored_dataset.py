"""A dataset whose every answer is known already, so that only scoring is left to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from agentix.errors import AgentFailed
from agentix.interfaces import ConfiguresSandbox, Dataset, Drives, Earlier, Flow, HasLimits
from agentix.models import AgentResult, ImageBuild, Limits, SandboxConfig

if TYPE_CHECKING:
    from agentix.sandbox import Sandbox


class RescoredDataset:
    """Scores kept answers with another dataset's scorer, each in a fresh sandbox.

    Args:
        dataset: Whose instances and scorer they are.
        patches: The kept patch of each trial.
        earlier: What the dataset kept itself of trials whose flow it drives; it goes before a patch.
    """

    answer = "state"
    """So that nobody looks for changes: there is no agent."""

    def __init__(
        self, dataset: Dataset, patches: Mapping[str, str], earlier: Mapping[str, Earlier] | None = None
    ) -> None:
        self._dataset = dataset
        self._patches = patches
        self._earlier = earlier or {}

    def instances(self) -> Iterable[dict[str, Any]]:
        """Those of the dataset."""
        return self._dataset.instances()

    def image(self, instance: dict[str, Any]) -> str | ImageBuild:
        """The dataset's image."""
        return self._dataset.image(instance)

    def sandbox_config(self, instance: dict[str, Any]) -> SandboxConfig:
        """The dataset's config."""
        if isinstance(self._dataset, ConfiguresSandbox):
            return self._dataset.sandbox_config(instance)
        return SandboxConfig()

    def limits(self, instance: dict[str, Any]) -> Limits:
        """The dataset's limits."""
        return self._dataset.limits(instance) if isinstance(self._dataset, HasLimits) else Limits()

    async def setup(self, sandbox: Sandbox, instance: dict[str, Any]) -> bool:
        """Nothing: this is for an agent's sandbox, and there is none."""
        return True

    async def score(self, sandbox: Sandbox, instance: dict[str, Any], patch: str) -> dict[str, Any]:
        """The dataset's scorer."""
        return await self._dataset.score(sandbox, instance, patch)

    async def drive(self, flow: Flow, instance: dict[str, Any]) -> dict[str, Any] | None:
        """Score, and nothing else."""
        earlier = self._earlier.get(flow.trial.trial_id)
        if earlier is not None and isinstance(self._dataset, Drives):
            flow.earlier = earlier
            return await self._dataset.drive(flow, instance)
        patch = self._patches[flow.trial.trial_id]
        async with flow.fresh_sandbox() as fresh:
            return await flow.score(lambda: self._dataset.score(fresh, instance, patch))


class NoAgent:
    """Stands where an agent has to be and is never asked."""

    deterministic = True

    async def solve(self, sandbox: Sandbox, instance: dict[str, Any], *, model: str | None) -> AgentResult:
        """Nothing to solve.

        Raises:
            AgentFailed: Always.
        """
        raise AgentFailed("there is no agent: kept answers are scored again")
