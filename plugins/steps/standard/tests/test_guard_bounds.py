from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.api import FailureCode, Record, Scope
from agentix.plugins.steps.standard.guard import Guard, GuardInputs
from agentix.records.experiment import AgentRow
from agentix.records.manifest import PluginUse

pytestmark = pytest.mark.anyio

RECORD = {
    "trial_id": "t",
    "reward": 0.5,
    "seconds": 12.0,
    "usage": {"input": 10, "output": 5, "cost_usd": 0.2, "turns": 7},
}


@pytest.fixture
def check(context):
    async def run(record=RECORD, *, scope=Scope.PER_TRIAL, **given):
        extra = {key: given.pop(key) for key in ("trial_dir",) if key in given}
        return await Guard().run(context(scope, subject=record, **extra), GuardInputs(**given))

    return run


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({"max_reward": 0.5, "min_reward": 0.5}, ""),
        ({"max_reward": 0.4}, "reward 0.5, want <= 0.4"),
        ({"min_reward": 0.6}, "reward 0.5, want >= 0.6"),
        ({"min_steps": 7, "min_tokens": 15, "max_cost": 0.2, "max_seconds": 12}, ""),
        ({"min_steps": 8, "max_tokens": 14}, "steps 7, want >= 8; tokens 15, want <= 14"),
        ({"min_cost": 1, "min_seconds": 60}, "seconds 12, want >= 60; cost 0.2, want >= 1"),
    ],
)
async def test_every_bound_is_inclusive_and_every_violation_is_told(check, bounds, said):
    outcome = await check(**bounds)
    assert (outcome.ok, outcome.message) == (not said, said)


@pytest.mark.parametrize("metric", ["reward", "steps", "seconds", "tokens", "cost"])
@pytest.mark.parametrize("side", ["min", "max"])
async def test_what_is_unknown_does_not_pass(check, metric, side):
    outcome = await check({"trial_id": "t"}, **{f"{side}_{metric}": 1})
    assert not outcome.ok and f"{metric} is unknown" in outcome.message


async def test_a_trial_without_a_reward_passes_only_where_nobody_asks_for_one(check):
    record = RECORD | {"reward": None}
    assert (await check(record, max_seconds=60)).ok
    outcome = await check(record, max_seconds=60, require_measured=True)
    assert (outcome.ok, outcome.message) == (False, "it has no reward")


async def test_steps_are_those_of_the_trajectory_where_there_is_one(check, tmp_path):
    steps = [
        {"step_id": 1, "source": "user", "message": "do it"},
        {"step_id": 2, "source": "agent", "message": "done"},
        {"step_id": 3, "source": "agent", "message": "really"},
    ]
    agent = {"name": "a", "version": "1"}
    trajectory = {"schema_version": "ATIF-v1.4", "session_id": "s", "agent": agent, "steps": steps}
    (tmp_path / "trajectory.json").write_text(json.dumps(trajectory))
    assert (await check(trial_dir=tmp_path, min_steps=2, max_steps=2)).ok
    (tmp_path / "trajectory.json").unlink()
    assert (await check(trial_dir=tmp_path, min_steps=7, max_steps=7)).ok


async def test_bounds_on_the_run_count_what_may_be_published(check, write_run):
    records = [
        Record(trial_id="1", case="a", agent="x", reward=1.0),
        Record(trial_id="2", case="a", agent="x", reward=0.0, dropped=True),
        Record(trial_id="3", case="a", agent="x", failure_code=FailureCode.HOST_ERROR),
    ]
    write_run(records, planned=4, matrix=(AgentRow(agent="x", use=PluginUse(ref="x"), trials=4),))

    async def run(**given):
        return (await check({}, scope=Scope.PER_EXPERIMENT, **given)).message

    assert await run(min_trials=2, max_trials=2, min_shipped=1, max_shipped=1) == ""
    assert await run(min_mean_reward=0.5, max_mean_reward=0.5, min_coverage=0.5, max_coverage=0.5) == ""
    assert await run(min_coverage=0.9) == "coverage 0.5, want >= 0.9"
    assert await run(require_measured=True) == "2 trials have no reward"


async def test_a_mean_of_nothing_does_not_pass(check, write_run):
    write_run([])
    outcome = await check({}, scope=Scope.PER_EXPERIMENT, max_mean_reward=1)
    assert outcome.message == "mean_reward is unknown, want <= 1"


async def test_a_bound_of_the_other_scope_is_an_error(check):
    with pytest.raises(ValueError, match="a bound on coverage has no meaning per_trial"):
        await check(min_coverage=0.5)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"min_reward": 1, "max_reward": 0},
        {"min_reward": 1, "min_trials": 1},
        {"min_coverage": 2},
        {"max_rewrad": 1},
    ],
)
def test_inputs_that_make_no_sense_are_refused(given):
    with pytest.raises(ValueError):
        GuardInputs(**given)


@given(low=st.floats(-1, 2), high=st.floats(-1, 2), value=st.floats(-1, 2))
def test_a_value_passes_exactly_between_its_bounds(low, high, value):
    from agentix.plugins.steps.standard.guard import _violations

    inputs = GuardInputs(min_reward=min(low, high), max_reward=max(low, high))
    passes = not list(_violations(inputs, {"reward": value}))
    assert passes == (min(low, high) <= value <= max(low, high))
