"""Retries, what each attempt leaves, and who is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentix.errors import AgentFailed, EnvFailed, HostError, VerifierError
from agentix.hooks import Hooks, hookimpl
from agentix.models import AgentResult, Event, FailureCode
from agentix.runner import Rollout, Trial, run_rollouts
from agentix.testing.fakes import FakeAgent, FakeDataset, FakeProvider
from agentix.testing.scripts import Action, fail

pytestmark = pytest.mark.anyio


async def retried(action: Action, *, stage: str = "score", **options: Any) -> Rollout:
    provider = FakeProvider()
    dataset = FakeDataset(1, on={stage: action} if stage != "solve" else None)
    agent = FakeAgent(on={"solve": action} if stage == "solve" else None)
    (rollout,) = await run_rollouts(dataset=dataset, agent=agent, provider=provider, **({"max_attempts": 3} | options))
    assert not provider.live
    return rollout


@pytest.mark.parametrize("error", [HostError("lost"), VerifierError("no tests"), ValueError("x")])
async def test_what_could_end_differently_is_tried_again_and_its_cause_is_kept(error: Exception) -> None:
    rollout = await retried(fail(error, times=2))
    assert (rollout.reward, rollout.attempts, rollout.failure) == (1.0, 3, None)
    assert [note.partition(":")[0] for note in rollout.notes] == [f"attempt {n} failed" for n in (1, 2)] or all(
        note.startswith("attempt") for note in rollout.notes
    )
    assert all(str(error) in note for note in rollout.notes)


async def test_the_last_attempt_tells_why_it_failed() -> None:
    rollout = await retried(fail(HostError("lost")))
    assert rollout.attempts == 3
    assert rollout.failure is not None
    assert len(rollout.notes) == 2


@pytest.mark.parametrize("error", [EnvFailed("no image")])
async def test_what_would_end_the_same_is_not_tried_again(error: Exception) -> None:
    assert (await retried(fail(error, times=1))).attempts == 1


async def test_an_agents_failure_is_not_tried_again_unless_asked() -> None:
    class NoPatch:
        calls = 0

        async def solve(self, sandbox: Any, instance: dict[str, Any], *, model: str | None) -> AgentResult:
            self.calls += 1
            if self.calls < 2:
                raise AgentFailed("gave up")
            return AgentResult(patch=instance["answer"])

    async def run(**options: Any) -> Rollout:
        (rollout,) = await run_rollouts(
            dataset=FakeDataset(1), agent=NoPatch(), provider=FakeProvider(), max_attempts=3, **options
        )
        return rollout

    assert (await run()).attempts == 1
    again = await run(retry_on=["AGENT_FAILED"])
    assert (again.attempts, again.reward) == (2, 1.0)
    assert (await run(retry_on=[FailureCode.AGENT_FAILED])).attempts == 2


async def test_every_attempt_keeps_a_directory_and_its_failure(tmp_path: Path) -> None:
    rollout = await retried(fail(ValueError("boom"), times=1), trial_dir=lambda trial: tmp_path / trial.trial_id)
    assert rollout.reward == 1.0
    attempts = tmp_path / "fake-1-1" / "attempts"
    assert sorted(p.name for p in attempts.iterdir()) == ["1", "2"]
    failure = json.loads((attempts / "1" / "failure.json").read_text())
    assert (failure["code"], failure["boundary"], failure["plugin"]) == ("VERIFIER_ERROR", "scorer", "FakeDataset")
    assert "boom" in failure["message"]
    assert "Traceback" in failure["traceback"]
    assert not (attempts / "2" / "failure.json").exists()


async def test_what_an_interrupted_run_left_is_kept(tmp_path: Path) -> None:
    left = tmp_path / "fake-1-1" / "attempts" / "1"
    left.mkdir(parents=True)
    (left / "log").write_text("half")
    rollout = await retried(fail(ValueError("boom")), max_attempts=1, trial_dir=lambda trial: tmp_path / trial.trial_id)
    assert rollout.attempts == 1
    assert [p.name for p in left.iterdir()] == ["log"]
    assert (left.parent / "2" / "failure.json").exists()


async def test_an_agent_that_raised_leaves_its_traceback_even_when_it_is_measured(tmp_path: Path) -> None:
    (rollout,) = await run_rollouts(
        dataset=FakeDataset(1, answer="state", score={"reward": 1}),
        agent=FakeAgent(on={"solve": fail(ValueError("boom"))}),
        provider=FakeProvider(),
        trial_dir=lambda trial: tmp_path,
    )
    assert rollout.reward == 1.0
    assert "ValueError: boom" in (tmp_path / "attempts" / "1" / "agent-error.txt").read_text()


async def test_the_agent_is_told_attempt_and_directory(tmp_path: Path) -> None:
    seen: list[tuple[int, Path | None]] = []

    def spends(context: Any) -> None:
        seen.append((context.attempt, context.log_dir))

    await run_rollouts(
        dataset=FakeDataset(1, scoring="shared", on={"score": fail(HostError("x"), times=1)}),
        agent=FakeAgent(spends=spends),
        provider=FakeProvider(),
        trial_dir=lambda trial: tmp_path,
        max_attempts=2,
    )
    assert seen == [(1, tmp_path / "attempts" / "1"), (2, tmp_path / "attempts" / "2")]


@pytest.mark.parametrize("error", [VerifierError("no tests"), HostError("lost")])
async def test_an_answer_that_could_not_be_scored_is_scored_again_without_the_agent(
    error: Exception, tmp_path: Path
) -> None:
    agent, provider = FakeAgent(spends=lambda context: context.log_dir), FakeProvider()
    (rollout,) = await run_rollouts(
        dataset=FakeDataset(1, on={"setup": fail(HostError("lost"), times=1), "score": fail(error, times=2)}),
        agent=agent,
        provider=provider,
        trial_dir=lambda trial: tmp_path,
        max_attempts=4,
    )
    assert (rollout.reward, rollout.attempts, rollout.ended, bool(rollout.patch)) == (1.0, 4, "completed", True)
    # One was lost at the set-up; then one for the agent, and one for each time that its answer was scored.
    assert provider.made == 1 + 1 + 3
    assert sum("only scores again" in note for note in rollout.notes) == 2
    assert "only scores again" not in rollout.notes[0]
    assert set(rollout.phases) >= {"agent", "score"}


@pytest.mark.parametrize("is_async", [True, False])
async def test_events_tell_what_happens_in_order(is_async: bool) -> None:
    events: list[Event] = []

    async def later(event: Event) -> None:
        events.append(event)

    await run_rollouts(
        dataset=FakeDataset(1, on={"score": fail(HostError("x"), times=1)}),
        agent=FakeAgent(),
        provider=FakeProvider(),
        max_attempts=2,
        on_event=later if is_async else events.append,
    )
    phases = ["create", "setup", "setup", "agent", "create", "score"]
    assert [(e.kind, e.attempt, e.phase) for e in events] == [
        ("trial_started", 1, None),
        *(("phase_started", 1, phase) for phase in phases),
        ("attempt_failed", 1, "score"),
        *(("phase_started", 2, phase) for phase in ("create", "score")),
        ("trial_finished", 2, None),
    ]
    assert {e.trial_id for e in events} == {"fake-1-1"}


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_event_callback_that_fails_breaks_nothing_and_is_noted(is_async: bool) -> None:
    async def later(event: Event) -> None:
        raise ValueError("the screen is gone")

    def now(event: Event) -> None:
        raise ValueError("the screen is gone")

    rollouts = await run_rollouts(
        dataset=FakeDataset(3),
        agent=FakeAgent(),
        provider=FakeProvider(),
        n_concurrent=1,
        on_event=later if is_async else now,
    )
    assert [r.reward for r in rollouts] == [1.0] * 3
    notes = [note for r in rollouts for note in r.notes]
    assert notes == ["on_event failed: ValueError: the screen is gone"]


async def test_hooks_are_told_of_each_trial_and_a_failing_one_is_a_note() -> None:
    told: list[str] = []

    class Watching:
        @hookimpl
        def agentix_trial_started(self, trial: Trial) -> None:
            told.append(f"{trial.trial_id} started")

        @hookimpl
        def agentix_trial_finished(self, trial: Trial, rollout: Rollout) -> None:
            told.append(f"{trial.trial_id} {rollout.reward}")
            raise ValueError("bad hook")

    hooks = Hooks()
    assert hooks.register(Watching(), name="watching") == []
    (rollout,) = await run_rollouts(dataset=FakeDataset(1), agent=FakeAgent(), provider=FakeProvider(), hooks=hooks)
    assert told == ["fake-1-1 started", "fake-1-1 1.0"]
    assert rollout.reward == 1.0
    assert any("watching" in note and "bad hook" in note for note in rollout.notes)
