"""Rollouts as they end: lazily pulled, bounded, and gone when the reader leaves."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from agentix.errors import HostError
from agentix.models import AgentResult, RuntimeMount, SandboxConfig, SandboxInfo
from agentix.runner import Rollout, Trial, run_rollouts, stream_rollouts, stream_trials
from agentix.testing.fakes import FakeAgent, FakeDataset, FakeProvider, fake_instance
from agentix.testing.scripts import Call, delay, fail, hang, only

pytestmark = pytest.mark.anyio


class Counted(FakeDataset):
    """A dataset that counts how many of its instances were pulled."""

    def __init__(self, count: int, **options: Any) -> None:
        super().__init__(count, **options)
        self.pulled = 0

    def instances(self) -> Iterator[dict[str, Any]]:
        for instance in super().instances():
            self.pulled += 1
            yield instance


async def nothing_left(provider: FakeProvider) -> None:
    with anyio.fail_after(60):
        while provider.live:  # noqa: ASYNC110 - nobody tells when a background task has ended
            await anyio.sleep(0.001)


@asynccontextmanager
async def cancelled_with(provider: FakeProvider) -> AsyncIterator[anyio.CancelScope]:
    """Cancels its body once the provider has made sandboxes."""

    async def cancel() -> None:
        with anyio.fail_after(60):
            while not provider.live:  # noqa: ASYNC110 - nobody tells when a sandbox is made
                await anyio.sleep(0.001)
        scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel)
        with anyio.CancelScope() as scope:
            yield scope


async def test_rollouts_come_in_the_order_in_which_they_end() -> None:
    others = anyio.Event()

    async def wait(call: Call) -> None:
        await others.wait()

    names = []
    agent = FakeAgent(on={"solve": only("fake-1", wait)})
    async with stream_rollouts(dataset=FakeDataset(3), agent=agent, provider=FakeProvider()) as stream:
        async for rollout in stream:
            names.append(rollout.instance_id)
            if len(names) == 2:
                others.set()
    assert sorted(names) == ["fake-1", "fake-2", "fake-3"]
    assert names[-1] == "fake-1"
    assert stream.stopped is None


async def test_a_stream_without_a_context_works_too() -> None:
    provider = FakeProvider()
    seen = [r async for r in stream_rollouts(dataset=FakeDataset(20), agent=FakeAgent(), provider=provider)]
    assert len(seen) == 20
    assert not provider.live


async def test_leaving_a_context_early_cancels_and_leaves_nothing() -> None:
    provider = FakeProvider()
    agent = FakeAgent(on={"solve": only([f"fake-{n}" for n in range(2, 100)], hang())})
    async with stream_rollouts(dataset=FakeDataset(100), agent=agent, provider=provider, n_concurrent=5) as stream:
        async for _ in stream:
            break
        assert provider.live
    assert not provider.live


async def test_leaving_a_plain_loop_early_cancels_and_leaves_nothing() -> None:
    provider = FakeProvider()
    agent = FakeAgent(on={"solve": only([f"fake-{n}" for n in range(2, 100)], hang())})
    async for _ in stream_rollouts(dataset=FakeDataset(100), agent=agent, provider=provider, n_concurrent=5):
        break
    gc.collect()
    await nothing_left(provider)


async def test_an_error_in_the_body_comes_out_as_it_is_and_leaves_nothing() -> None:
    provider = FakeProvider()
    with pytest.raises(ZeroDivisionError):
        async with stream_rollouts(dataset=FakeDataset(9), agent=FakeAgent(), provider=provider) as stream:
            async for _ in stream:
                raise ZeroDivisionError
    assert not provider.live


@pytest.mark.parametrize("with_context", [True, False])
async def test_cancelling_the_reader_leaves_nothing(with_context: bool) -> None:
    provider = FakeProvider()
    stream = stream_rollouts(dataset=FakeDataset(9), agent=FakeAgent(on={"solve": hang()}), provider=provider)

    async def read() -> None:
        if with_context:
            async with stream:
                await anext(stream)
        else:
            await anext(stream)

    async with cancelled_with(provider) as scope:
        await read()
    assert scope.cancelled_caught
    assert provider.made
    assert not provider.live


async def test_cancelling_a_run_leaves_nothing_and_passes_through() -> None:
    provider = FakeProvider()
    kept: list[Rollout] = []
    async with cancelled_with(provider) as scope:
        await run_rollouts(
            dataset=FakeDataset(9),
            agent=FakeAgent(on={"solve": hang()}),
            provider=provider,
            on_result=lambda rollout, trial: kept.append(rollout),
        )
    assert scope.cancelled_caught
    assert provider.made
    assert not provider.live
    assert not kept


async def test_cancelling_while_a_sandbox_is_deleted_waits_for_that() -> None:
    provider = FakeProvider(on={"delete": delay(0.2)})
    with anyio.move_on_after(0.1) as scope:
        await run_rollouts(dataset=FakeDataset(1), agent=FakeAgent(), provider=provider)
    assert scope.cancelled_caught
    assert not provider.live


async def test_instances_are_pulled_as_slots_become_free() -> None:
    dataset = Counted(1_000_000)
    async with stream_rollouts(dataset=dataset, agent=FakeAgent(), provider=FakeProvider(), n_concurrent=4) as stream:
        for _ in range(10):
            await anext(stream)
        await anyio.sleep(0.05)
        # Ten were read, as many as there are slots may wait to be read, and each slot may hold one.
        assert dataset.pulled <= 10 + 4 + 4


async def test_a_run_that_is_cancelled_while_its_workers_begin_pulls_no_more_instances() -> None:
    scope = anyio.CancelScope()

    class Cancels(FakeProvider):
        async def create(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
            scope.cancel()
            return await super().create(config, runtime)

    dataset, provider = Counted(5000), Cancels()
    with scope:
        await run_rollouts(dataset=dataset, agent=FakeAgent(), provider=provider, n_concurrent=8, prepare_ahead=3)
    assert scope.cancelled_caught
    assert dataset.pulled < 20
    assert not provider.live


async def test_no_more_trials_run_at_once_than_there_are_slots() -> None:
    running, most = 0, 0

    async def work(sandbox: Any, instance: dict[str, Any]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.sleep(0.002)
        running -= 1

    await run_rollouts(dataset=FakeDataset(40), agent=FakeAgent(work=work), provider=FakeProvider(), n_concurrent=5)
    assert most == 5


async def test_on_result_is_awaited_before_the_slot_is_free() -> None:
    order: list[str] = []

    async def keep(rollout: Rollout, trial: Trial) -> None:
        order.append(f"{trial.trial_id} begins")
        await anyio.sleep(0.01)
        order.append(f"{trial.trial_id} kept")

    async def work(sandbox: Any, instance: dict[str, Any]) -> None:
        order.append(f"{instance['instance_id']} runs")

    await run_rollouts(
        dataset=FakeDataset(2), agent=FakeAgent(work=work), provider=FakeProvider(), n_concurrent=1, on_result=keep
    )
    assert order == [
        "fake-1 runs",
        "fake-1-1 begins",
        "fake-1-1 kept",
        "fake-2 runs",
        "fake-2-1 begins",
        "fake-2-1 kept",
    ]


async def test_a_result_that_cannot_be_kept_ends_the_run_after_the_running_trials() -> None:
    kept: list[str] = []

    def keep(rollout: Rollout, trial: Trial) -> None:
        if rollout.instance_id == "fake-1":
            raise OSError("no space left on device")
        kept.append(rollout.instance_id)

    agent = FakeAgent(on={"solve": only("fake-2", delay(0.05))})
    with pytest.raises(OSError, match="no space"):
        await run_rollouts(
            dataset=FakeDataset(50), agent=agent, provider=FakeProvider(), n_concurrent=2, on_result=keep
        )
    assert "fake-2" in kept
    assert len(kept) < 5


async def test_a_dataset_that_raises_in_the_middle_ends_the_stream_with_that_error() -> None:
    def torn() -> Iterator[dict[str, Any]]:
        yield fake_instance(1)
        yield fake_instance(2)
        raise RuntimeError("torn")

    seen: list[str] = []
    with pytest.raises(RuntimeError, match="torn"):
        async with stream_rollouts(dataset=FakeDataset(torn()), agent=FakeAgent(), provider=FakeProvider()) as stream:
            async for rollout in stream:
                seen.append(rollout.instance_id)
    assert sorted(seen) == ["fake-1", "fake-2"]


async def test_planned_trials_run_as_planned() -> None:
    class Modest:
        async def solve(self, sandbox: Any, instance: dict[str, Any], *, model: str | None) -> AgentResult:
            return AgentResult(patch=f"by {model}")

    trials = [
        Trial(trial_id=f"t-{n}", instance=fake_instance(n), index=n, model=f"m{n}", position=n) for n in range(1, 4)
    ]
    dataset = FakeDataset(score={"reward": 1})
    async with stream_trials(trials, dataset=dataset, agent=Modest(), provider=FakeProvider()) as stream:
        seen = {r.trial_id: (r.index, r.patch) async for r in stream}
    assert seen == {"t-1": (1, "by m1"), "t-2": (2, "by m2"), "t-3": (3, "by m3")}


async def test_a_stopped_stream_starts_nothing_more_and_says_why() -> None:
    provider = FakeProvider()
    dataset = Counted(1000)
    async with stream_rollouts(dataset=dataset, agent=FakeAgent(), provider=provider, n_concurrent=2) as stream:
        await anext(stream)
        stream.stop("the budget is spent")
        rest = [rollout async for rollout in stream]
    assert stream.stopped == "the budget is spent"
    assert 1 + len(rest) == dataset.pulled < 10
    assert all(rollout.resolved for rollout in rest)


async def test_infrastructure_that_keeps_failing_for_one_cause_stops_the_run() -> None:
    provider = FakeProvider(on={"create": fail(HostError("no engine"))})
    dataset = Counted(1000)
    async with stream_rollouts(
        dataset=dataset, agent=FakeAgent(), provider=provider, n_concurrent=1, stop_after=3
    ) as stream:
        seen = [rollout async for rollout in stream]
    assert len(seen) == dataset.pulled == 3
    assert stream.stopped is not None
    assert "3 times in a row" in stream.stopped
    assert "no engine" in stream.stopped


async def test_failures_of_several_causes_or_of_agents_do_not_stop_the_run() -> None:
    def scripted(patch: str) -> dict[str, Any]:
        raise HostError(patch, detail=patch)

    async def alternate(sandbox: Any, instance: dict[str, Any]) -> AgentResult:
        return AgentResult(patch="ab"[int(instance["instance_id"][-1]) % 2])

    several = await run_rollouts(
        dataset=FakeDataset(9, score=scripted),
        agent=FakeAgent(work=alternate),
        provider=FakeProvider(),
        n_concurrent=1,
        stop_after=2,
    )
    assert len(several) == 9
    agents = await run_rollouts(
        dataset=FakeDataset(9),
        agent=FakeAgent(on={"solve": fail(ValueError())}),
        provider=FakeProvider(),
        stop_after=2,
    )
    assert len(agents) == 9


async def test_by_default_every_instance_gets_its_rollout() -> None:
    provider = FakeProvider(on={"create": fail(HostError("no engine"))})
    rollouts = await run_rollouts(dataset=FakeDataset(30), agent=FakeAgent(), provider=provider)
    assert [r.failure is not None for r in rollouts] == [True] * 30


async def test_a_closed_stream_gives_no_more() -> None:
    stream = stream_rollouts(dataset=FakeDataset(9), agent=FakeAgent(), provider=FakeProvider())
    await anext(stream)
    await stream.aclose()
    await stream.aclose()
    with pytest.raises(StopAsyncIteration):
        while True:
            await anext(stream)


def test_an_event_loop_may_end_right_after_a_stream_was_left() -> None:
    code = """
import asyncio
from agentix.runner import stream_rollouts
from agentix.testing import FakeAgent, FakeDataset, FakeProvider

async def main():
    seen = 0
    stream = stream_rollouts(dataset=FakeDataset(500), agent=FakeAgent(), provider=FakeProvider(), n_concurrent=4)
    async for _ in stream:
        seen += 1
        if seen == COUNT:
            break

for COUNT in range(20, 40):
    asyncio.run(main())
print("ended")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "ended\n"
