"""What plugins do that nobody asked for: stray cancellations, failed dials, a loop that is late."""

from __future__ import annotations

import asyncio
import contextlib
import time
import tracemalloc
from typing import Any

import anyio
import pytest

from agentix.errors import HostError, SandboxGone
from agentix.models import AgentResult, Limits
from agentix.runner import SeenIds, pacing, run_rollouts
from agentix.runner.pacing import PULSE_S, Pacer
from agentix.testing.fakes import FakeAgent, FakeDataset, FakeProvider, right_patch
from agentix.testing.scripts import fail, hang

pytestmark = pytest.mark.anyio


async def touch(sandbox: Any, instance: dict[str, Any]) -> None:
    await sandbox.exec("true")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_that_nobody_asked_for_is_the_agents_failure() -> None:
    async def await_a_cancelled_task(sandbox: Any, instance: dict[str, Any]) -> None:
        task = asyncio.ensure_future(asyncio.sleep(100))
        task.cancel()
        await task

    agent = FakeAgent(work=await_a_cancelled_task)
    rollouts = await run_rollouts(dataset=FakeDataset(3), agent=agent, provider=FakeProvider(), n_concurrent=1)
    assert [r.failure is not None and r.failure.code for r in rollouts] == ["AGENT_FAILED"] * 3


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_cancelling_the_task_of_a_run_in_asyncios_own_way_leaves_nothing() -> None:
    provider = FakeProvider()
    agent = FakeAgent(on={"solve": hang()})
    task = asyncio.ensure_future(run_rollouts(dataset=FakeDataset(3), agent=agent, provider=provider))
    with anyio.fail_after(60):
        while not provider.live:  # noqa: ASYNC110 - nobody tells when a sandbox is made
            await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not provider.live


async def test_an_agent_whose_own_tasks_fail_is_told_by_their_error() -> None:
    async def grouped(sandbox: Any, instance: dict[str, Any]) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            raise HostError("the model is down", detail="model_api")

    (rollout,) = await run_rollouts(dataset=FakeDataset(1), agent=FakeAgent(work=grouped), provider=FakeProvider())
    assert rollout.failure is not None
    assert (rollout.failure.code, rollout.failure.detail) == ("HOST_ERROR", "model_api")


@pytest.mark.parametrize("error", [HostError("refused"), LookupError("no such tag"), OSError(5, "refused")])
@pytest.mark.parametrize("user", ["dataset", "agent"])
async def test_a_sandbox_that_cannot_be_dialled_is_the_sandboxs_failure(error: Exception, user: str) -> None:
    class Touching(FakeDataset):
        async def setup(self, sandbox: Any, instance: dict[str, Any]) -> bool:
            await touch(sandbox, instance)
            return True

    provider = FakeProvider(on={"dial": fail(error)})
    dataset = Touching(1) if user == "dataset" else FakeDataset(1)
    (rollout,) = await run_rollouts(dataset=dataset, agent=FakeAgent(work=touch), provider=provider)
    assert rollout.failure is not None
    assert (rollout.failure.code, rollout.failure.boundary) == ("HOST_ERROR", "sandbox")
    assert rollout.failure.plugin == "fake"
    assert str(error) in rollout.failure.message
    assert not provider.live


async def test_an_agent_that_goes_on_calling_a_lost_sandbox_is_stopped() -> None:
    provider = FakeProvider()
    calls = 0

    async def never_mind(sandbox: Any, instance: dict[str, Any]) -> None:
        nonlocal calls
        while calls < 50:
            calls += 1
            if calls == 6:
                await provider.lose(sandbox)
            with contextlib.suppress(Exception):
                await sandbox.exec("true")

    (rollout,) = await run_rollouts(dataset=FakeDataset(1), agent=FakeAgent(work=never_mind), provider=provider)
    assert calls < 12
    assert rollout.failure is not None
    assert (rollout.failure.code, rollout.failure.detail) == ("HOST_ERROR", "sandbox_gone")
    assert rollout.failure.boundary == "sandbox"


async def test_an_agent_may_return_what_it_has_after_it_lost_its_sandbox() -> None:
    provider = FakeProvider()

    async def give_up(sandbox: Any, instance: dict[str, Any]) -> AgentResult:
        await provider.lose(sandbox)
        with contextlib.suppress(SandboxGone):
            await sandbox.exec("true")
        return AgentResult(patch=right_patch(instance))

    (rollout,) = await run_rollouts(dataset=FakeDataset(1), agent=FakeAgent(work=give_up), provider=provider)
    assert rollout.reward == 1.0


async def test_a_sandbox_that_was_made_but_not_reached_nor_deleted_is_told() -> None:
    class Eager(FakeProvider):
        connects_lazily = False

    async with Eager(on={"dial": fail(HostError("refused")), "delete": fail(HostError("busy"))}) as provider:
        (rollout,) = await run_rollouts(dataset=FakeDataset(1), agent=FakeAgent(), provider=provider)
        assert rollout.failure is not None
        assert rollout.failure.message == "refused"
        assert set(rollout.unreleased) == provider.live
        assert any("busy" in note for note in rollout.notes)
    assert not provider.live


async def test_a_used_sandbox_whose_teardown_hangs_ends_at_the_runs_limit() -> None:
    async with FakeProvider(on={"delete": hang()}) as provider:
        began = time.monotonic()
        (rollout,) = await run_rollouts(
            dataset=FakeDataset(1), agent=FakeAgent(work=touch), provider=provider, limits=Limits(teardown_s=0.1)
        )
        assert time.monotonic() - began < 60
        assert rollout.reward == 1.0
        assert set(rollout.unreleased) == provider.live
    assert not provider.live


async def test_many_trials_at_once_all_come_back_though_the_loop_is_late() -> None:
    async def block(sandbox: Any, instance: dict[str, Any]) -> AgentResult:
        time.sleep(0.004)  # noqa: ASYNC251 - the point is to be late
        return AgentResult(patch=instance["answer"])

    rollouts = await run_rollouts(
        dataset=FakeDataset(400), agent=FakeAgent(work=block), provider=FakeProvider(), n_concurrent=200
    )
    assert sum(r.resolved for r in rollouts) == 400


class Clock:
    """Time that passes when a test says so, whatever the machine does meanwhile."""

    Event = anyio.Event

    def __init__(self) -> None:
        self.now = 0.0
        self._wakes = anyio.Event()

    def current_time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        await self._wakes.wait()

    async def pulse(self, took: float) -> None:
        """Wake who sleeps after so long, and wait until everybody waits again."""
        await anyio.wait_all_tasks_blocked()
        self.now += took
        wakes, self._wakes = self._wakes, anyio.Event()
        wakes.set()
        await anyio.wait_all_tasks_blocked()


async def test_a_pacer_admits_at_once_while_the_loop_is_on_time_and_a_few_when_it_never_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(pacing, "anyio", clock)
    pacer = Pacer()
    admitted = 0

    async def starts() -> None:
        nonlocal admitted
        await pacer.admitted()
        admitted += 1

    async def starting(count: int) -> None:
        for _ in range(count):
            tasks.start_soon(starts)
        await anyio.wait_all_tasks_blocked()

    async with anyio.create_task_group() as tasks:
        await starting(1)
        assert admitted == 1
        tasks.start_soon(pacer.run)
        await clock.pulse(PULSE_S * 3)
        await starting(9)
        assert admitted == 1
        # As many as a hundred in a second, while it goes on to be late.
        await clock.pulse(PULSE_S * 2)
        assert admitted == 1 + 4
        await clock.pulse(PULSE_S * 2)
        assert admitted == 1 + 8
        await clock.pulse(PULSE_S)
        assert admitted == 1 + 9
        await starting(40)
        assert admitted == 1 + 9 + 40
        tasks.cancel_scope.cancel()


def test_ids_take_few_bytes_each_and_none_is_taken_for_another() -> None:
    tracemalloc.start()
    seen = SeenIds()
    assert all(seen.add(f"instance-{number}") for number in range(100_000))
    assert not any(seen.add(f"instance-{number}") for number in range(0, 100_000, 7))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 100_000 * 12
