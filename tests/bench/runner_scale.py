"""10,000 fake rollouts, 2,000 at a time, in one process: lag of the event loop and growth of memory."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
from table import Row, show

from agentix.runner import stream_rollouts
from agentix.testing.fakes import FakeAgent, FakeDataset, FakeProvider, fake_instance
from agentix.testing.scripts import Call, fail

ROLLOUTS = 10_000
WIDTH = 2_000
MEAN_S = 4.0
PROBE_S = 0.005
# A sandbox that is touched would be a process, and 2,000 of them no benchmark.
TOUCHED = fail(AssertionError("a sandbox was touched"))


def rss_mib() -> float:
    """Resident memory of this process."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


class Measured:
    """What was seen while the rollouts ran."""

    def __init__(self) -> None:
        self.lags: list[float] = []
        self.most = 0
        self.running = 0
        self.peak = 0.0
        self.seconds = 0.0
        self.cpu = 0.0

    async def probe(self) -> None:
        """How late a short sleep ends, again and again."""
        while True:
            due = time.perf_counter() + PROBE_S
            await anyio.sleep(PROBE_S)
            self.lags.append((time.perf_counter() - due) * 1000)
            if len(self.lags) % 100 == 0:
                self.peak = max(self.peak, rss_mib())

    async def think(self, call: Call) -> None:
        """What an agent does most: wait."""
        self.running += 1
        self.most = max(self.most, self.running)
        await anyio.sleep(random.uniform(0.75, 1.25) * MEAN_S)
        self.running -= 1


def instances() -> Iterator[dict[str, Any]]:
    """Made as they are needed."""
    return (fake_instance(number) for number in range(ROLLOUTS))


async def run() -> Measured:
    """Run them all."""
    seen = Measured()
    agent = FakeAgent(on={"solve": seen.think})
    wall, used = time.perf_counter(), time.process_time()
    async with anyio.create_task_group() as tasks, FakeProvider(on={"dial": TOUCHED}) as provider:
        tasks.start_soon(seen.probe)
        count = 0
        async with stream_rollouts(
            dataset=FakeDataset(instances()), agent=agent, provider=provider, n_concurrent=WIDTH
        ) as stream:
            async for rollout in stream:
                assert rollout.resolved, rollout.error
                count += 1
        assert count == ROLLOUTS
        tasks.cancel_scope.cancel()
    seen.seconds, seen.cpu = time.perf_counter() - wall, time.process_time() - used
    return seen


def rows() -> list[Row]:
    """Measure."""
    found = []
    for backend in ("asyncio", "trio"):
        gc.collect()
        before = rss_mib()
        seen = anyio.run(run, backend=backend)
        lags = sorted(seen.lags)
        assert seen.most >= WIDTH * 0.8, f"only {seen.most} ran at once"
        found += [
            Row(
                name=f"event loop lag, p99, {backend}",
                ours=lags[int(len(lags) * 0.99)],
                unit="ms",
                target=50,
                better="less",
            ),
            Row(name=f"memory growth, {backend}", ours=seen.peak - before, unit="MiB", target=100, better="less"),
            Row(name=f"rollouts, {WIDTH} at once, {backend}", ours=ROLLOUTS / seen.seconds, unit="/s"),
            Row(name=f"CPU of a rollout, {backend}", ours=seen.cpu * 1000 / ROLLOUTS, unit="ms", better="less"),
        ]
    return found


if __name__ == "__main__":
    show(rows())
