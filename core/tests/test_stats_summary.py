from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.models import FailureCode
from agentix.records import Record, UsageRecord
from agentix.stats import Summary, bucket


def measured(reward: float, number: int, **values) -> Record:
    return Record(trial_id=f"t{number}", case=f"c{number}", reward=reward, **values)


def unmeasured(code: str, number: int) -> Record:
    return Record(trial_id=f"t{number}", case=f"c{number}", failure_code=FailureCode(code))


def test_the_denominator_is_measured_and_agent_failures_and_both_bounds_are_given():
    rewards = [1.0] * 4 + [0.0] * 2
    codes = ["AGENT_TIMEOUT", "AGENT_FAILED", "ENV_FAILED", "VERIFIER_ERROR"]
    records = [measured(r, n) for n, r in enumerate(rewards)] + [unmeasured(c, n + 6) for n, c in enumerate(codes)]
    summary = Summary.of(records)
    assert (summary.n, summary.measured, summary.denominator) == (10, 6, 8)
    assert (summary.mean_reward, summary.mean_reward_infra_zero) == (0.5, 0.4)
    assert (summary.resolved_rate, summary.resolved_rate_infra_zero) == (0.5, 0.4)
    assert summary.coverage == 0.6


def test_a_mean_over_little_is_flagged():
    summary = Summary.of([measured(1.0, 0), *(unmeasured("HOST_ERROR", n) for n in range(1, 10))])
    assert (summary.mean_reward, summary.mean_reward_infra_zero, summary.low_coverage) == (1.0, 0.1, True)
    assert not Summary.of([measured(1.0, 0), unmeasured("AGENT_FAILED", 1)]).low_coverage
    assert Summary.of([measured(1.0, 0)], planned=2).low_coverage


@given(
    st.lists(st.one_of(st.floats(0, 1), st.sampled_from([c for c in FailureCode if c is not FailureCode.CANCELLED]))),
    st.integers(0, 5),
)
def test_every_trial_is_in_exactly_one_bucket(outcomes, missing):
    records = [
        unmeasured(outcome, n) if isinstance(outcome, FailureCode) else measured(outcome, n)
        for n, outcome in enumerate(outcomes)
    ]
    summary = Summary.of(records, planned=len(records) + missing)
    buckets = summary.resolved + summary.unresolved + summary.agent_failures + summary.infra_failures
    assert buckets + summary.unrun == summary.planned
    assert summary.unrun == missing
    assert sum(summary.by_code.values()) == summary.n - summary.measured
    assert {bucket(record) for record in records} <= {"resolved", "unresolved", "agent_failure", "infra_failure"}


def test_nothing_measured_has_no_mean():
    summary = Summary.of([unmeasured("HOST_ERROR", 0)])
    assert (summary.mean_reward, summary.mean_reward_infra_zero) == (None, 0.0)
    assert Summary.of([]).mean_reward is None


def test_unknown_tokens_and_cost_are_not_zero():
    known = measured(1.0, 0, usage=UsageRecord(input=5, cache_read=2, cost_usd=0.0))
    summary = Summary.of([known, measured(1.0, 1)])
    assert (summary.tokens.sum, summary.tokens.unknown) == (7, 1)
    assert (summary.cost_usd.sum, summary.cost_usd.unknown) == (0.0, 1)
    assert Summary.of([measured(1.0, 1)]).cost_usd.sum is None


def test_repeated_instances_have_best_worst_and_mean():
    records = [Record(trial_id=f"t{n}", case="c", index=n + 1, reward=r) for n, r in enumerate([0.0, 0.5, 1.0])]
    (spread,) = Summary.of(records).to_data()["instances"]
    assert spread == {"instance": "c", "agent": "", "llm_spec": None, "n": 3, "mean": 0.5, "best": 1.0, "worst": 0.0}


def test_several_agents_on_one_instance_are_no_repetition():
    def one(agent, llm_spec, index, reward):
        return Record(
            trial_id=f"{agent}{llm_spec}{index}", case="c", agent=agent, llm_spec=llm_spec, index=index, reward=reward
        )

    once = [one("oracle", None, 1, 1.0), one("nop", None, 1, 0.0), one("nop", "small", 1, 0.5)]
    assert Summary.of(once).to_data()["instances"] == []
    rows = Summary.of([*once, one("nop", "small", 2, 0.0)]).to_data()["instances"]
    assert [(row["agent"], row["llm_spec"], row["best"], row["worst"]) for row in rows] == [
        ("nop", None, 0.0, 0.0),
        ("nop", "small", 0.5, 0.0),
        ("oracle", None, 1.0, 1.0),
    ]


def test_an_agent_failure_pulls_an_instances_mean_and_an_infrastructure_failure_does_not():
    records = [
        Record(trial_id="a", case="c", reward=1.0),
        Record(trial_id="b", case="c", failure_code=FailureCode.AGENT_FAILED),
        Record(trial_id="d", case="c", failure_code=FailureCode.HOST_ERROR),
    ]
    assert Summary.of(records).instances["c", "", None].mean == pytest.approx(0.5)
