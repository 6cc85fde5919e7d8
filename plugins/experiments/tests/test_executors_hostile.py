"""Executors that leave something else than what they were asked for."""

from __future__ import annotations

import json

import pytest

from agentix.api import FailureCode

HOSTILE = """
---
kind: Commands
hostile:
  script: |
    if [ $AGENT_NAME = fine ]; then echo 1 > $OUT_DIR/reward.txt; exit; fi
    {script}
---
cases: [{{path: cases/a}}]
max_attempts: {attempts}
matrix: {{agents: [odd, fine]}}
"""


def outcome(lab, script: str, *, attempts: int = 1):
    code = lab.run(lab.file(HOSTILE.format(script=script, attempts=attempts)), executor="hostile", stop_after=None)
    records = lab.records()
    assert records["a-fine-1"].reward == 1.0, "one odd trial cost the others"
    return code, records["a-odd-1"]


@pytest.mark.parametrize(
    "script",
    [
        "echo 1 > reward.txt; rm -r $OUT_DIR",
        "rm -r $OUT_DIR; echo x > $OUT_DIR",
        'rm -r $OUT_DIR; mkdir $WORK_DIR/o; echo 1 > $WORK_DIR/o/reward.txt; ln -s "$WORK_DIR/o" $OUT_DIR',
    ],
    ids=["removed", "a file", "a link"],
)
@pytest.mark.parametrize("attempts", [1, 2])
def test_a_directory_that_is_none_any_more_is_no_answer(lab, script: str, attempts: int) -> None:
    _, record = outcome(lab, script, attempts=attempts)
    assert (record.failure_code, record.failure_detail) == ("VERIFIER_ERROR", "invalid_reward")
    assert "$OUT_DIR is no directory any more" in (record.failure_message or "")
    assert record.attempts == attempts


@pytest.mark.parametrize(
    "usage", ["[" * 100_000, '{"input": 1e400}', '{"cost_usd": NaN}', '{"turns": 2.5}', '{"input": 1' + "0" * 30 + "}"]
)
def test_a_usage_that_cannot_be_is_a_note_and_the_reward_counts(lab, usage: str) -> None:
    (lab.root / "usage.json").write_text(usage)
    code, record = outcome(lab, f"cp {lab.root}/usage.json $OUT_DIR; echo 0.5 > $OUT_DIR/reward.txt")
    assert (code, record.reward, record.usage) == (0, 0.5, None)
    assert any("usage.json" in note for note in record.notes)


def test_no_trajectory_is_read_through_a_link(lab) -> None:
    away = lab.root / "away"
    away.mkdir()
    agent, step = {"name": "x", "version": "1"}, {"step_id": 1, "source": "user", "message": "of the host"}
    found = {"schema_version": "ATIF-v1.6", "session_id": "s", "agent": agent, "steps": [step]}
    (away / "trajectory.json").write_text(json.dumps(found))
    code, record = outcome(lab, f"ln -s {away} $OUT_DIR/agent; echo 1 > $OUT_DIR/reward.txt")
    assert (code, record.reward) == (0, 1.0)
    assert not (lab.path() / "trials/a-odd-1/trajectory.json").exists()


def test_a_result_that_is_none_costs_its_own_trial_only(lab) -> None:
    lab.script(a_x_1=[{"tokens": float("nan")}])
    assert lab.run(lab.file("matrix: {agents: [x]}\n")) == 3
    records = lab.records()
    assert records["a-x-1"].failure_code == "HOST_ERROR"
    assert records["b-x-1"].reward == 1.0
    assert lab.manifest()["incomplete"] is None


def test_a_case_that_one_trial_has_written_to_is_run_by_no_other(lab) -> None:
    script = "echo 1 > $OUT_DIR/reward.txt; chmod u+w $CASE_DIR; echo x > $CASE_DIR/planted"
    lab.run(lab.file(HOSTILE.format(script=script, attempts=1)), executor="hostile", stop_after=None)
    records = lab.records()
    assert records["a-odd-1"].reward == 1.0
    assert (records["a-fine-1"].failure_code, records["a-fine-1"].failure_detail) == ("ENV_FAILED", "case_changed")
    lab.run(
        lab.file(HOSTILE.format(script="exit 1", attempts=1)),
        executor="hostile",
        retry=frozenset({FailureCode.ENV_FAILED}),
        force=True,
    )
    assert lab.records()["a-fine-1"].reward == 1.0
