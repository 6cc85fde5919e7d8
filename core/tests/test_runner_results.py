"""What comes back from a run: one typed rollout per trial, in input order."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from agentix.errors import ConfigError, DatasetError, UsageError
from agentix.models import AgentResult, Limits, SandboxConfig, TimeoutRule, Usage
from agentix.runner import (
    RUN_LABEL,
    TRIAL_LABEL,
    Trial,
    rollout_one,
    run_rollouts,
    run_rollouts_sync,
)
from agentix.testing.fakes import FakeAgent, FakeDataset, FakeProvider, fake_instance
from agentix.testing.scripts import delay, fail, only

pytestmark = pytest.mark.anyio


async def test_every_instance_gets_a_resolved_rollout_in_input_order() -> None:
    slow_first = FakeAgent(on={"solve": only("fake-1", delay(0.05))})
    provider = FakeProvider()
    rollouts = await run_rollouts(dataset=FakeDataset(4), agent=slow_first, provider=provider, n_concurrent=2)
    assert [r.instance_id for r in rollouts] == ["fake-1", "fake-2", "fake-3", "fake-4"]
    assert sum(r.resolved for r in rollouts) == 4
    first = rollouts[0]
    assert (first.reward, first.agent_exit, first.error, first.skipped, first.failure) == (1.0, 0, None, None, None)
    assert (first.ended, first.agent_version, first.attempts, first.trial_id) == ("completed", "1", 1, "fake-1-1")
    assert first.patch == fake_instance(1)["answer"]
    assert set(first.phases) == {"create", "setup", "agent", "score", "teardown"}
    assert 0 < first.phases["agent"] <= first.duration_s
    assert not provider.live


async def test_a_trial_that_asks_nothing_of_its_sandbox_starts_no_process() -> None:
    provider = FakeProvider(on={"dial": fail(AssertionError("a sandbox was touched"))})
    for scoring in ("fresh", "shared"):
        for patch in (None, ""):
            dataset = FakeDataset(1, scoring=scoring)  # type: ignore[arg-type]
            (rollout,) = await run_rollouts(dataset=dataset, agent=FakeAgent(patch), provider=provider)
            assert rollout.failure is None


async def test_trials_of_one_instance_are_next_to_each_other() -> None:
    rollouts = await run_rollouts(dataset=FakeDataset(2), agent=FakeAgent(), provider=FakeProvider(), trials=3)
    assert [(r.instance_id, r.index) for r in rollouts] == [
        ("fake-1", 1),
        ("fake-1", 2),
        ("fake-1", 3),
        ("fake-2", 1),
        ("fake-2", 2),
        ("fake-2", 3),
    ]
    assert [r.trial_id for r in rollouts[:2]] == ["fake-1-1", "fake-1-2"]


async def test_no_instances_give_no_rollouts() -> None:
    assert await run_rollouts(dataset=FakeDataset(0), agent=FakeAgent(), provider=FakeProvider()) == []


async def test_a_failure_is_recorded_and_the_others_go_on() -> None:
    dataset = FakeDataset(3, on={"setup": only("fake-2", fail(ValueError("no disk")))})
    rollouts = await run_rollouts(dataset=dataset, agent=FakeAgent(), provider=FakeProvider())
    assert [r.resolved for r in rollouts] == [True, False, True]
    assert rollouts[1].error is not None
    assert "ValueError: no disk" in rollouts[1].error
    assert "\n" not in rollouts[1].error


async def test_an_empty_patch_is_skipped_and_measured_as_zero() -> None:
    scored = FakeDataset(1, on={"score": fail(AssertionError("was scored"))})
    (rollout,) = await run_rollouts(dataset=scored, agent=FakeAgent(patch=""), provider=FakeProvider())
    assert (rollout.skipped, rollout.reward, rollout.failure, rollout.error) == ("empty_patch", 0.0, None, None)
    assert (rollout.score, rollout.ended, rollout.resolved) == (None, "completed", False)


@pytest.mark.parametrize("scoring", ["fresh", "shared"])
async def test_an_answer_that_is_a_state_is_scored_whatever_the_patch(scoring: Any) -> None:
    dataset = FakeDataset(1, answer="state", scoring=scoring, score={"reward": 0.5})
    (rollout,) = await run_rollouts(dataset=dataset, agent=FakeAgent(patch=""), provider=FakeProvider())
    assert (rollout.reward, rollout.skipped, rollout.resolved) == (0.5, None, False)


async def test_scoring_is_in_a_new_sandbox_once_the_agents_is_gone() -> None:
    provider = FakeProvider()
    seen: list[tuple[str, frozenset[str]]] = []

    class Watching(FakeDataset):
        async def score(self, sandbox: Any, instance: dict[str, Any], patch: str) -> dict[str, Any]:
            seen.append((sandbox.id, frozenset(provider.live)))
            return {"resolved": True}

        async def setup(self, sandbox: Any, instance: dict[str, Any]) -> bool:
            seen.append((sandbox.id, frozenset(provider.live)))
            return True

    await run_rollouts(dataset=Watching(1), agent=FakeAgent(), provider=provider)
    (first, live_first), (second, live_second) = seen
    assert first != second
    assert (live_first, live_second) == ({first}, {second})


async def test_shared_scoring_uses_the_agents_sandbox() -> None:
    provider = FakeProvider()
    await run_rollouts(dataset=FakeDataset(2, scoring="shared"), agent=FakeAgent(), provider=provider)
    assert provider.made == 2


async def test_sandboxes_carry_the_config_and_the_labels_of_run_and_trial() -> None:
    provider = FakeProvider()
    configs: list[SandboxConfig] = []

    async def look(sandbox: Any, instance: dict[str, Any]) -> None:
        configs.append(sandbox.config)

    class WithImage(FakeDataset):
        def image(self, instance: dict[str, Any]) -> str:
            return f"image-of-{instance['instance_id']}"

    dataset = WithImage(2, config=SandboxConfig(env={"A": "1"}, labels={"mine": "yes"}))
    await run_rollouts(dataset=dataset, agent=FakeAgent(work=look), provider=provider, n_concurrent=1)
    assert [c.image for c in configs] == ["image-of-fake-1", "image-of-fake-2"]
    assert all(c.env == {"A": "1"} and c.labels["mine"] == "yes" for c in configs)
    assert [c.labels[TRIAL_LABEL] for c in configs] == ["fake-1-1", "fake-2-1"]
    assert len({c.labels[RUN_LABEL] for c in configs}) == 1


async def test_an_agent_that_takes_no_context_is_given_none_and_one_that_does_knows_its_trial() -> None:
    class Plain:
        async def solve(self, sandbox: Any, instance: dict[str, Any], *, model: str | None) -> AgentResult:
            return AgentResult(patch=f"{model}")

    class Knowing:
        async def solve(self, sandbox: Any, instance: Any, *, model: str | None, context: Any) -> AgentResult:
            return AgentResult(patch=f"{context.trial.trial_id} {context.instruction} {context.limits.agent_s}")

    dataset = FakeDataset([{"instance_id": "a", "problem_statement": "do it"}], score={"reward": 0})
    (plain,) = await run_rollouts(dataset=dataset, agent=Plain(), provider=FakeProvider(), model="m-1")
    assert plain.patch == "m-1"
    (knowing,) = await run_rollouts(
        dataset=dataset,
        agent=Knowing(),
        provider=FakeProvider(),
        limits=Limits(agent_s=10),
        timeouts={"agent": TimeoutRule(multiplier=2)},
    )
    assert knowing.patch == "a-1 do it 20.0"


async def test_usage_is_what_the_agent_says_else_what_it_reported_as_it_went() -> None:
    said = FakeAgent(result=AgentResult(patch="x", usage=Usage(output=5)))
    reported = FakeAgent(spends=lambda context: context.spend(Usage(input=7, tool_calls=1)))
    dataset = FakeDataset(1, score={"reward": 1})
    (one,) = await run_rollouts(dataset=dataset, agent=said, provider=FakeProvider())
    (other,) = await run_rollouts(dataset=dataset, agent=reported, provider=FakeProvider())
    assert one.usage == Usage(output=5)
    assert other.usage == Usage(input=7, tool_calls=1)


async def test_one_attempt_does_not_see_what_another_did_to_the_instance() -> None:
    async def meddle(sandbox: Any, instance: dict[str, Any]) -> AgentResult:
        instance["list"].append(1)
        return AgentResult(patch=str(len(instance["list"])))

    dataset = FakeDataset([{"instance_id": "a", "list": []}], score={"reward": 1})
    rollouts = await run_rollouts(dataset=dataset, agent=FakeAgent(work=meddle), provider=FakeProvider(), trials=3)
    assert [r.patch for r in rollouts] == ["1", "1", "1"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n_concurrent": 0}, "n_concurrent"),
        ({"n_concurrent": True}, "n_concurrent"),
        ({"trials": 0}, "trials"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"stop_after": 0}, "stop_after"),
        ({"retry_on": ["HOST"]}, "'HOST' is no failure code"),
        ({"retry_on": ["CANCELLED"]}, "not retried"),
        ({"bundle": "nobody-has-this:0.1.0"}, "there is no bundle nobody-has-this:0.1.0"),
        ({"dataset": object()}, "has no image"),
        ({"agent": object()}, "has no solve"),
        ({"agent": FakeAgent}, "is a class"),
        ({"provider": object()}, "has no session"),
    ],
)
async def test_a_bad_argument_is_one_clear_error_before_anything_runs(options: dict[str, Any], says: str) -> None:
    given: dict[str, Any] = {"dataset": FakeDataset(1), "agent": FakeAgent(), "provider": FakeProvider()}
    with pytest.raises(UsageError, match=says):
        await run_rollouts(**(given | options))


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ({"instance_id": "a"}, "two instances have the id 'a'"),
        ({"instance_id": ""}, "no instance_id"),
        ({"instance_id": 3}, "no instance_id"),
        ({}, "no instance_id"),
        ("a", "is str, not a dict"),
    ],
)
async def test_a_malformed_instance_ends_the_run_after_the_running_trials(second: Any, says: str) -> None:
    kept: list[str] = []
    dataset = FakeDataset([{"instance_id": "a"}, second, {"instance_id": "c"}], score={"reward": 1})
    with pytest.raises(DatasetError, match=says):
        await run_rollouts(
            dataset=dataset,
            agent=FakeAgent(patch="x", on={"solve": delay(0.02)}),
            provider=FakeProvider(),
            on_result=lambda rollout, trial: kept.append(rollout.instance_id),
        )
    assert kept == ["a"]


async def test_a_dataset_that_raises_in_the_middle_ends_the_run_with_that_error() -> None:
    def broken() -> Any:
        yield fake_instance(1)
        raise RuntimeError("the file is torn")

    with pytest.raises(RuntimeError, match="torn"):
        await run_rollouts(dataset=FakeDataset(broken()), agent=FakeAgent(), provider=FakeProvider())


@pytest.mark.parametrize("name", ["a/b", "..", "a b", "x" * 300, "🚀"])
async def test_any_instance_id_runs(name: str) -> None:
    dataset = FakeDataset([{"instance_id": name}], score={"reward": 1})
    (rollout,) = await run_rollouts(dataset=dataset, agent=FakeAgent(patch="x"), provider=FakeProvider())
    assert (rollout.instance_id, rollout.reward) == (name, 1.0)
    assert "/" not in rollout.trial_id


async def test_rollout_one_runs_an_instance_or_a_planned_trial() -> None:
    plugins: dict[str, Any] = {"dataset": FakeDataset(), "agent": FakeAgent(), "provider": FakeProvider()}
    assert (await rollout_one(fake_instance(7), **plugins)).trial_id == "fake-7-1"
    trial = Trial(trial_id="mine", instance=fake_instance(7), index=4, model="m")
    rollout = await rollout_one(trial, **plugins)
    assert (rollout.trial_id, rollout.index, rollout.resolved) == ("mine", 4, True)
    with pytest.raises(ConfigError):
        await rollout_one(trial, **plugins, max_attempts=0)
    with pytest.raises(DatasetError):
        await rollout_one({}, **plugins)


async def test_the_sync_form_works_where_a_loop_runs_already() -> None:
    await anyio.lowlevel.checkpoint()
    rollouts = run_rollouts_sync(dataset=FakeDataset(2), agent=FakeAgent(), provider=FakeProvider())
    assert [r.resolved for r in rollouts] == [True, True]


def test_the_sync_form_works_in_a_script() -> None:
    rollouts = run_rollouts_sync(dataset=FakeDataset(2), agent=FakeAgent(), provider=FakeProvider(), trials=2)
    assert [r.resolved for r in rollouts] == [True] * 4
