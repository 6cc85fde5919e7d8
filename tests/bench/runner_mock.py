"""200 rollouts that touch no sandbox, against a bare loop over the same dataset and agent."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import anyio
from table import Row, show

from agentix.models import AgentResult
from agentix.runner import run_rollouts
from agentix.testing.fakes import FakeAgent, FakeDataset, FakeProvider
from agentix.testing.scripts import fail

ROLLOUTS = 200
WIDTH = 8
ROUNDS = 5
TOUCHED = fail(AssertionError("a sandbox was touched"))


async def bare(count: int) -> None:
    """What has to happen anyway: set up, solve, score, so many at a time."""
    dataset, agent = FakeDataset(count), FakeAgent()
    instances = dataset.instances()

    async def work() -> None:
        for instance in instances:
            await anyio.lowlevel.checkpoint()
            assert await dataset.setup(None, instance)  # type: ignore[arg-type]
            result: AgentResult = await agent.solve(None, instance, model=None)  # type: ignore[arg-type]
            score = await dataset.score(None, instance, result.patch)  # type: ignore[arg-type]
            assert score["reward"] == 1

    async with anyio.create_task_group() as tasks:
        for _ in range(WIDTH):
            tasks.start_soon(work)


async def ours(count: int) -> None:
    """The same through the runner."""
    async with FakeProvider(on={"dial": TOUCHED}) as provider:
        rollouts = await run_rollouts(
            dataset=FakeDataset(count), agent=FakeAgent(), provider=provider, n_concurrent=WIDTH
        )
    assert sum(rollout.resolved for rollout in rollouts) == count


async def measured(loop: Callable[[int], Awaitable[None]]) -> tuple[float, float]:
    """The best of some rounds: rollouts a second, and ms of CPU for each."""
    await loop(ROLLOUTS)
    rates, cpu = [], []
    for _ in range(ROUNDS):
        wall, used = time.perf_counter(), time.process_time()
        await loop(ROLLOUTS)
        rates.append(ROLLOUTS / (time.perf_counter() - wall))
        cpu.append((time.process_time() - used) * 1000 / ROLLOUTS)
    return max(rates), min(cpu)


def rows() -> list[Row]:
    """Measure."""
    found = []
    for backend in ("asyncio", "trio"):
        bare_rate, bare_cpu = anyio.run(measured, bare, backend=backend)
        rate, cpu = anyio.run(measured, ours, backend=backend)
        found += [
            Row(name=f"mock rollouts, {backend}", ours=rate, unit="/s", target=200, bare=bare_rate),
            Row(name=f"CPU of a mock rollout, {backend}", ours=cpu, unit="ms", target=4, better="less", bare=bare_cpu),
        ]
    return found


if __name__ == "__main__":
    show(rows())
