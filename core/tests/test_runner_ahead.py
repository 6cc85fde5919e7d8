"""Sandboxes that are made ready before they are needed: who gets them, and that none is left."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from agentix.errors import ConfigError, EnvFailed, HostError
from agentix.models import AgentResult, RuntimeMount, SandboxConfig, SandboxInfo, Trial
from agentix.runner import plan, run_rollouts, stream_rollouts, stream_trials
from agentix.sandbox import Sandbox
from agentix.testing.fakes import FakeAgent, FakeDataset, FakeProvider
from agentix.testing.scripts import fail

pytestmark = pytest.mark.anyio


class Counting(FakeProvider):
    """A provider that knows how many of its sandboxes nobody uses yet, and for whom each was made."""

    prepares_ahead = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.made_for: list[str] = []
        self.images: list[str | None] = []

    async def create(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
        self.made_for.append(config.labels["agentix.trial"])
        return await super().create(config, runtime)

    async def prefetch(self, config: SandboxConfig) -> None:
        self.images.append(str(config.image))


class Opened(FakeAgent):
    """Holds every agent until all that run at a time have begun, and looks at what exists by then."""

    def __init__(self, provider: FakeProvider, *, live: int) -> None:
        super().__init__()
        self.provider = provider
        self.live = live
        self.seen: list[str] = []

    async def solve(
        self, sandbox: Sandbox, instance: dict[str, Any], *, model: str | None, context: Any
    ) -> AgentResult:
        self.seen.append(sandbox.info.labels["agentix.trial"])
        with anyio.move_on_after(60):
            while len(self.provider.live) < self.live:  # noqa: ASYNC110
                await anyio.sleep(0.001)
        return await super().solve(sandbox, instance, model=model, context=context)


async def test_the_next_trials_and_scoring_find_their_sandboxes_ready_within_the_budget() -> None:
    provider = Counting()
    agent = Opened(provider, live=2)
    rollouts = await run_rollouts(
        dataset=FakeDataset(4), agent=agent, provider=provider, n_concurrent=1, prepare_ahead=1
    )
    assert [rollout.reward for rollout in rollouts] == [1.0] * 4
    # Each trial got what carries its own labels, and nothing was made twice.
    assert agent.seen == [rollout.trial_id for rollout in rollouts]
    assert sorted(provider.made_for) == sorted(2 * agent.seen)
    assert not provider.live


@pytest.mark.parametrize("scoring", ["fresh", "shared"])
async def test_no_more_wait_unused_than_the_budget_allows(scoring: Any) -> None:
    provider = Counting()
    most = 0

    class Looks(FakeAgent):
        async def solve(self, sandbox: Sandbox, *args: Any, **more: Any) -> AgentResult:
            nonlocal most
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
                most = max(most, len(provider.live))
            return await super().solve(sandbox, *args, **more)

    await run_rollouts(
        dataset=FakeDataset(20, scoring=scoring), agent=Looks(), provider=provider, n_concurrent=3, prepare_ahead=2
    )
    assert 3 < most <= 3 + 2
    assert not provider.live


@pytest.mark.parametrize(("width", "expected"), [(1, 1), (4, 1), (8, 2), (40, 10)])
async def test_by_default_it_is_a_quarter_where_the_provider_says_that_it_helps(width: int, expected: int) -> None:
    from agentix.runner.setting import Setting

    def budget(provider: FakeProvider, **options: Any) -> int:
        return Setting(dataset=FakeDataset(), agent=FakeAgent(), provider=provider, **options).prepare_ahead

    assert budget(Counting(), n_concurrent=width) == expected
    assert budget(Counting(), n_concurrent=width, prepare_ahead=0) == 0
    assert budget(FakeProvider(), n_concurrent=width) == 0
    assert budget(FakeProvider(), n_concurrent=width, prepare_ahead=3) == 3
    for wrong in (-1, True, "2"):
        with pytest.raises(ConfigError, match="prepare_ahead"):
            budget(Counting(), prepare_ahead=wrong)


async def test_one_that_died_is_replaced_with_a_note() -> None:
    provider = Counting()
    lost: list[str] = []

    class Kills(FakeAgent):
        async def solve(self, sandbox: Sandbox, *args: Any, **more: Any) -> AgentResult:
            if not lost:
                with anyio.fail_after(60):
                    while not (waiting := set(made) - {sandbox.id}):  # noqa: ASYNC110
                        await anyio.sleep(0.001)
                lost.extend(waiting)
                await provider.lose(made[lost[0]])
            return await super().solve(sandbox, *args, **more)

    made: dict[str, Sandbox] = {}
    session = provider.session

    @asynccontextmanager
    async def watched(config: SandboxConfig) -> AsyncIterator[Sandbox]:
        async with session(config) as sandbox:
            made[sandbox.id] = sandbox
            yield sandbox

    provider.session = watched  # type: ignore[method-assign]
    first, second = await run_rollouts(
        dataset=FakeDataset(2, scoring="shared"), agent=Kills(), provider=provider, n_concurrent=1, prepare_ahead=1
    )
    assert (first.reward, second.reward, first.notes) == (1.0, 1.0, ())
    assert ["lost before it was needed" in note for note in second.notes] == [True]
    assert provider.made_for.count(second.trial_id) == 2
    assert not provider.live


class Images(FakeDataset):
    """Every instance has an image of its own; the named one cannot be had."""

    def sandbox_config(self, instance: dict[str, Any]) -> SandboxConfig:
        return SandboxConfig(image=f"{instance['instance_id']}:1")


class Picky(Counting):
    def __init__(self, error: Exception, times: int) -> None:
        super().__init__()
        self.error, self.times, self.refused = error, times, 0

    async def create(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
        if config.image == "fake-2:1" and self.refused < self.times:
            self.refused += 1
            raise self.error
        return await super().create(config.model_copy(update={"image": None}), runtime)


async def test_a_trial_gets_the_error_of_the_sandbox_that_was_begun_for_it() -> None:
    provider = Picky(EnvFailed("no such image", detail="image_pull"), times=1)
    rollouts = await run_rollouts(
        dataset=Images(3, scoring="shared"), agent=FakeAgent(), provider=provider, n_concurrent=1, prepare_ahead=1
    )
    assert [rollout.reward for rollout in rollouts] == [1.0, None, 1.0]
    assert rollouts[1].failure is not None
    assert (rollouts[1].failure.code, rollouts[1].failure.boundary) == ("ENV_FAILED", "sandbox")
    assert provider.refused == 1


async def test_what_a_busy_machine_could_not_make_ahead_is_made_when_it_is_needed() -> None:
    provider = Picky(HostError("busy"), times=1)
    rollouts = await run_rollouts(
        dataset=Images(3, scoring="shared"), agent=FakeAgent(), provider=provider, n_concurrent=1, prepare_ahead=1
    )
    assert [rollout.reward for rollout in rollouts] == [1.0] * 3
    assert ["busy" in note for note in rollouts[1].notes] == [True]


async def test_images_are_fetched_once_and_ahead_of_need() -> None:
    class Same(Images):
        def instances(self) -> Iterator[dict[str, Any]]:
            yield from ({**instance, "image": number // 3} for number, instance in enumerate(super().instances()))

        def sandbox_config(self, instance: dict[str, Any]) -> SandboxConfig:
            return SandboxConfig(image=f"image-{instance['image']}")

    class Imageless(Counting):
        async def create(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
            return await super().create(config.model_copy(update={"image": None}), runtime)

    provider = Imageless()
    await run_rollouts(dataset=Same(12), agent=FakeAgent(), provider=provider, n_concurrent=1, prepare_ahead=1)
    assert len(set(provider.images)) == len(provider.images)
    assert set(provider.images) <= {f"image-{n}" for n in range(4)}
    assert "image-1" in provider.images


async def test_images_of_sandboxes_besides_the_agents_are_fetched_ahead_within_the_budget() -> None:
    most = 0

    class More(Images):
        def more_sandboxes(self, instance: dict[str, Any]) -> list[SandboxConfig]:
            return [SandboxConfig(image=f"verifier-{n}") for n in range(3)] + [SandboxConfig()]

    class Imageless(Counting):
        fetching = 0

        async def prefetch(self, config: SandboxConfig) -> None:
            nonlocal most
            self.fetching += 1
            most = max(most, self.fetching)
            await anyio.lowlevel.checkpoint()
            self.fetching -= 1
            await super().prefetch(config)

        async def create(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
            return await super().create(config.model_copy(update={"image": None}), runtime)

    provider = Imageless()
    await run_rollouts(dataset=More(12), agent=FakeAgent(), provider=provider, n_concurrent=1, prepare_ahead=1)
    assert {f"verifier-{n}" for n in range(3)} <= set(provider.images)
    assert len(set(provider.images)) == len(provider.images)
    assert most == 1


async def test_an_image_that_cannot_be_fetched_ahead_fails_nothing() -> None:
    class Fails(Counting):
        async def prefetch(self, config: SandboxConfig) -> None:
            self.images.append("")
            raise EnvFailed("no such image") if len(self.images) % 2 else ValueError("a flaw")

        async def create(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
            return await super().create(config.model_copy(update={"image": None}), runtime)

    provider = Fails()
    rollouts = await run_rollouts(
        dataset=Images(8), agent=FakeAgent(), provider=provider, n_concurrent=2, prepare_ahead=1
    )
    assert [rollout.failure for rollout in rollouts] == [None] * 8
    assert provider.images


async def test_what_scoring_does_not_need_is_deleted() -> None:
    class Nothing(Opened):
        async def solve(
            self, sandbox: Sandbox, instance: dict[str, Any], *, model: str | None, context: Any
        ) -> AgentResult:
            await super().solve(sandbox, instance, model=model, context=context)
            return AgentResult()

    provider = Counting()
    (rollout,) = await run_rollouts(dataset=FakeDataset(1), agent=Nothing(provider, live=2), provider=provider)
    assert rollout.skipped == "empty_patch"
    assert provider.made == 2
    assert not provider.live


async def test_a_run_that_is_stopped_or_cancelled_or_fails_leaves_none() -> None:
    provider = Counting()
    async with stream_rollouts(
        dataset=FakeDataset(1000), agent=FakeAgent(), provider=provider, n_concurrent=2, prepare_ahead=3
    ) as stream:
        await anext(stream)
        stream.stop("enough")
        assert len([rollout async for rollout in stream]) < 10
    assert (provider.live, stream.unreleased) == (set(), ())

    with anyio.move_on_after(0.05):
        await run_rollouts(dataset=FakeDataset(10**6), agent=FakeAgent(), provider=provider, prepare_ahead=3)
    assert not provider.live

    class Malformed(FakeDataset):
        def instances(self) -> Iterator[dict[str, Any]]:
            yield from super().instances()
            raise ValueError("line 7")

    seen: list[str] = []
    with pytest.raises(ValueError, match="line 7"):
        await run_rollouts(
            dataset=Malformed(5),
            agent=FakeAgent(),
            provider=provider,
            prepare_ahead=8,
            n_concurrent=1,
            on_result=lambda rollout, trial: seen.append(trial.trial_id),
        )
    # What was read ahead of its turn is no reason to leave out what comes before it.
    assert len(seen) == 5
    assert not provider.live


async def test_the_breaker_ends_what_was_made_ahead() -> None:
    provider = Counting()
    dataset = FakeDataset(1000, on={"setup": fail(HostError("no disk"))})
    async with stream_rollouts(
        dataset=dataset, agent=FakeAgent(), provider=provider, n_concurrent=1, stop_after=3, prepare_ahead=2
    ) as stream:
        seen = [rollout async for rollout in stream]
    assert len(seen) == 3
    assert not provider.live


async def test_one_that_nobody_used_and_that_cannot_be_deleted_is_told() -> None:
    class Sticky(Counting):
        def __init__(self) -> None:
            super().__init__()
            self.stuck = ""

        async def create(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
            info = await super().create(config, runtime)
            if config.labels["agentix.trial"] == "fake-2-1":
                self.stuck = info.id
            return info

        async def delete(self, sandbox_id: str) -> None:
            if sandbox_id == self.stuck:
                raise HostError("device busy")
            await super().delete(sandbox_id)

    provider = Sticky()
    dataset = FakeDataset(1000, scoring="shared")
    agent = Opened(provider, live=2)
    async with stream_rollouts(
        dataset=dataset, agent=agent, provider=provider, n_concurrent=1, prepare_ahead=1
    ) as stream:
        with anyio.fail_after(60):
            while not provider.stuck:  # noqa: ASYNC110
                await anyio.sleep(0.001)
        stream.stop("enough")
        assert len([rollout async for rollout in stream]) == 1
    assert set(stream.unreleased) == provider.live == {provider.stuck}
    await provider.aclose()


async def test_a_source_that_can_be_looked_at_is_not_read_ahead() -> None:
    class Queue:
        def __init__(self) -> None:
            self.rest = list(plan(FakeDataset(6).instances(), trials=1, model=None))
            self.taken: list[str] = []
            self.looked = 0

        def __iter__(self) -> Iterator[Trial]:
            while self.rest:
                self.taken.append(self.rest[0].trial_id)
                yield self.rest.pop(0)

        def upcoming(self, count: int) -> Sequence[Trial]:
            self.looked += 1
            return self.rest[:count]

    queue, provider = Queue(), Counting()
    taken: list[int] = []

    class Notes(FakeAgent):
        async def solve(self, sandbox: Sandbox, *args: Any, **more: Any) -> AgentResult:
            taken.append(len(queue.taken))
            return await super().solve(sandbox, *args, **more)

    async with stream_trials(
        queue, dataset=FakeDataset(6), agent=Notes(), provider=provider, n_concurrent=1, prepare_ahead=2
    ) as stream:
        assert len([rollout async for rollout in stream]) == 6
    assert taken == [1, 2, 3, 4, 5, 6]
    assert queue.looked
    assert len(provider.made_for) == 12
    assert not provider.live
