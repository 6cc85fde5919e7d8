"""Sandboxes made ready for trials that are run one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from agentix.models import AgentResult, RuntimeMount, SandboxConfig, SandboxInfo, Trial
from agentix.runner import Dataset, plan, preparing, rollout_one
from agentix.sandbox import Sandbox
from agentix.testing.fakes import FakeAgent, FakeDataset, FakeProvider

pytestmark = pytest.mark.anyio


class Labelled(FakeProvider):
    """A provider that knows for which trials it made sandboxes."""

    def __init__(self) -> None:
        super().__init__()
        self.made_for: list[str] = []

    async def create(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
        self.made_for.append(config.labels["agentix.trial"])
        return await super().create(config, runtime)


class Waits(FakeAgent):
    """Works until so many sandboxes exist."""

    def __init__(self, provider: FakeProvider, *, live: int) -> None:
        super().__init__()
        self.provider = provider
        self.live = live

    async def solve(
        self, sandbox: Sandbox, instance: dict[str, Any], *, model: str | None, context: Any
    ) -> AgentResult:
        with anyio.fail_after(60):
            while len(self.provider.live) < self.live:  # noqa: ASYNC110
                await anyio.sleep(0.001)
        return await super().solve(sandbox, instance, model=model, context=context)


class Queue:
    """Trials in their order, each of which may have a dataset of its own."""

    def __init__(self, count: int) -> None:
        self.dataset = FakeDataset(count, scoring="shared")
        self.rest = list(plan(self.dataset.instances(), trials=1, model=None))

    def upcoming(self, count: int) -> Sequence[Trial]:
        return self.rest[:count]

    def dataset_of(self, trial: Trial) -> Dataset:
        return self.dataset


async def test_a_trial_finds_the_sandbox_that_was_made_while_another_ran() -> None:
    provider, queue = Labelled(), Queue(3)
    order = [trial.trial_id for trial in queue.rest]
    async with preparing(provider, count=1, upcoming=queue.upcoming, dataset_of=queue.dataset_of) as preparer:
        while queue.rest:
            trial = queue.rest.pop(0)
            agent = Waits(provider, live=2 if queue.rest else 1)
            rollout = await rollout_one(trial, dataset=queue.dataset, agent=agent, provider=provider, preparer=preparer)
            assert (rollout.reward, rollout.notes) == (1.0, ())
            assert len(provider.live) == (1 if queue.rest else 0)
    assert provider.made_for == order
    assert preparer.unreleased == ()


async def test_what_a_trial_did_not_take_is_ended_and_gives_room_for_the_next() -> None:
    provider, queue = Labelled(), Queue(3)
    async with preparing(provider, count=1, upcoming=queue.upcoming, dataset_of=queue.dataset_of) as preparer:
        first = queue.rest.pop(0)
        agent = Waits(provider, live=2)
        await rollout_one(first, dataset=queue.dataset, agent=agent, provider=provider, preparer=preparer)
        failed = queue.rest.pop(0)
        assert provider.made_for[-1] == failed.trial_id
        await preparer.discard(failed)
        with anyio.fail_after(60):
            while provider.made_for[-1] != queue.rest[0].trial_id or not provider.live:  # noqa: ASYNC110
                await anyio.sleep(0.001)
        assert len(provider.live) == 1
        preparer.stop()
    assert not provider.live


async def test_a_dataset_that_cannot_be_had_costs_its_own_trial_only() -> None:
    provider, queue = Labelled(), Queue(3)
    names = [trial.trial_id for trial in queue.rest]

    def dataset_of(trial: Trial) -> Dataset:
        if trial.trial_id == names[1]:
            raise LookupError("no such dataset")
        return queue.dataset

    async with preparing(provider, count=2, upcoming=queue.upcoming, dataset_of=dataset_of) as preparer:
        first = queue.rest.pop(0)
        agent = Waits(provider, live=2)
        await rollout_one(first, dataset=queue.dataset, agent=agent, provider=provider, preparer=preparer)
    assert provider.made_for == [names[0], names[2]]
    assert not provider.live


@pytest.mark.parametrize("way", ["error", "cancelled"])
async def test_nothing_is_left_whichever_way_the_context_is_left(way: str) -> None:
    provider, queue = Labelled(), Queue(2)

    async def run() -> None:
        async with preparing(provider, count=1, upcoming=queue.upcoming, dataset_of=queue.dataset_of) as preparer:
            first = queue.rest.pop(0)
            agent = Waits(provider, live=2)
            await rollout_one(first, dataset=queue.dataset, agent=agent, provider=provider, preparer=preparer)
            assert provider.live
            if way == "error":
                raise LookupError("plain, not in a group")
            scope.cancel()
            await anyio.sleep_forever()

    with anyio.CancelScope() as scope:
        if way == "error":
            with pytest.raises(LookupError, match="plain"):
                await run()
        else:
            await run()
    assert scope.cancelled_caught is (way == "cancelled")
    assert not provider.live
