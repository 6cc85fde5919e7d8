"""Sandboxes made ready for trials that are run one by one, whoever decides which is next."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from agentix.interfaces import Dataset, SandboxProvider
from agentix.models import AgentResult, Limits, Phase, TimeoutRule, Trial
from agentix.runner.ahead import Ahead, LookAhead
from agentix.runner.setting import Setting


class Preparer:
    """Makes sandboxes ready; `rollout_one` takes one that was made for its trial. `preparing` opens one.

    Args:
        ahead: Makes them.
    """

    def __init__(self, ahead: Ahead) -> None:
        self.ahead = ahead

    @property
    def unreleased(self) -> tuple[str, ...]:
        """Ids of sandboxes that no trial used and that could not be deleted; complete when the context was left."""
        return tuple(self.ahead.unreleased)

    def stop(self) -> None:
        """Make nothing more ready, and begin to end what no trial has taken."""
        self.ahead.stop()

    async def discard(self, trial: Trial) -> None:
        """End what was made ready for a trial that ended without it."""
        await self.ahead.discard(trial.trial_id)


@asynccontextmanager
async def preparing(
    provider: SandboxProvider,
    *,
    count: int,
    upcoming: LookAhead,
    dataset_of: Callable[[Trial], Dataset],
    limits: Limits | None = None,
    timeouts: Mapping[Phase, TimeoutRule] | None = None,
    bundle: str | None = None,
) -> AsyncIterator[Preparer]:
    """Let every `rollout_one` inside of this context find its sandbox ready, as the trials of `run_rollouts` do.

    While agents work, sandboxes are made for the trials that come next, and images are had for those after them.
    Leaving the context ends what no trial has taken.

    Args:
        provider: Makes the sandboxes of all the trials.
        count: How many may exist that nobody uses yet.
        upcoming: Gives the next so many trials that have not started, without taking them.
        dataset_of: The dataset of a trial. Where it raises, nothing is made ready for that trial.
        limits: Those that the trials are run with.
        timeouts: Likewise.
        bundle: Likewise, as a digest.
    """
    settings: dict[int, Setting] = {}

    def setting_of(trial: Trial) -> Setting:
        dataset = dataset_of(trial)
        known = settings.get(id(dataset))
        if known is None:
            known = settings[id(dataset)] = Setting(
                dataset=dataset, agent=_Nobody(), provider=provider, limits=limits, timeouts=timeouts, bundle=bundle
            )
        return known

    raised: Exception | None = None
    async with anyio.create_task_group() as tasks:
        ahead = Ahead(provider, budget=count, setting_of=setting_of, upcoming=upcoming, tasks=tasks)
        try:
            yield Preparer(ahead)
        except Exception as error:
            # A task group would wrap it.
            raised = error
        await ahead.drain()
        tasks.cancel_scope.cancel()
    if raised is not None:
        raise raised


class _Nobody:
    """The agent does not matter to what a sandbox is."""

    async def solve(self, sandbox: Any, instance: dict[str, Any], *, model: str | None) -> AgentResult:
        raise NotImplementedError
