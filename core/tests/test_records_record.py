from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agentix.models import Failure, FailureCode, Rollout, Usage
from agentix.records import Record
from agentix.records.plain import dump_line, plain

KEYS = [
    "schema_version",
    "trial_id",
    "case",
    "case_sha256",
    "agent",
    "llm_spec",
    "index",
    "attempts",
    "reward",
    "metrics",
    "failure_code",
    "failure_detail",
    "failure_message",
    "ended",
    "usage",
    "image_digest",
    "agent_version",
    "phases",
    "step_failures",
    "redaction",
    "seconds",
    "at",
    "dropped",
    "notes",
]


def rollout(**values):
    return Rollout(**{"instance_id": "one", "trial_id": "one-a-1", **values})


def test_keys_of_the_schema_are_in_their_order():
    assert list(Record.model_fields) == KEYS


def test_a_full_record_is_written_in_the_order_of_the_keys():
    record = Record(
        trial_id="t",
        case="c",
        case_sha256="0",
        agent="a",
        llm_spec="s",
        reward=0.5,
        metrics={"m": 1.0},
        ended="timeout",
        phases={"agent": 1.0},
        seconds=2.0,
        at="now",
        dropped=True,
        notes=("n",),
    )
    written = list(json.loads(record.to_line()))
    assert written == [key for key in KEYS if key in written]


def test_empty_keys_are_left_out_and_a_reward_of_zero_is_not_empty():
    data = Record.from_rollout(rollout(score={"reward": 0}), agent="a", at="now").to_data()
    assert data["reward"] == 0.0
    assert not {"metrics", "notes", "dropped", "failure_code", "usage"} & data.keys()


@given(st.text(st.characters(), max_size=40), st.floats(allow_nan=False, allow_infinity=False))
def test_a_line_reads_back_as_the_same_record(text, reward):
    record = Record.from_rollout(rollout(score={"reward": reward}, notes=(text,)), agent=text or "a")
    line = record.to_line()
    assert line.count(b"\n") == 1
    assert Record.model_validate_json(line) == record


def test_text_that_utf8_cannot_hold_is_spelled_out():
    failure = Failure(code=FailureCode.AGENT_FAILED, message="bad byte \udcff")
    record = Record.from_rollout(rollout(failure=failure), agent="a")
    assert record.failure_message == "bad byte \\udcff"
    assert json.loads(record.to_line().decode("utf-8"))


@pytest.mark.parametrize("bad", ["NaN", "Infinity", '"1"', "true"])
def test_a_reward_that_is_no_finite_number_is_no_record(bad):
    with pytest.raises(ValidationError):
        Record.model_validate_json(f'{{"schema_version":1,"trial_id":"t","case":"c","reward":{bad}}}')


def test_an_unknown_key_is_no_record():
    with pytest.raises(ValidationError):
        Record.model_validate_json('{"schema_version":1,"trial_id":"t","case":"c","rewrad":1}')


def test_a_failure_beside_a_reward_becomes_a_note():
    failure = Failure(code=FailureCode.HOST_ERROR, message="teardown failed")
    record = Record.from_rollout(rollout(score={"reward": 1.0}, failure=failure), agent="a")
    assert record.failure_code is None
    assert record.notes == ("HOST_ERROR: teardown failed",)


def test_a_rollout_without_reward_and_without_reason_is_a_host_error():
    record = Record.from_rollout(rollout(error="lost"), agent="a")
    assert (record.failure_code, record.failure_message) == (FailureCode.HOST_ERROR, "lost")


def test_a_failed_setup_is_the_environments_failure():
    record = Record.from_rollout(rollout(skipped="setup_failed"), agent="a")
    assert (record.failure_code, record.reward) == (FailureCode.ENV_FAILED, None)


def test_an_empty_patch_is_a_measured_zero_that_says_so():
    record = Record.from_rollout(rollout(skipped="empty_patch"), agent="a")
    assert (record.reward, record.resolved, record.failure_code) == (0.0, False, None)
    assert "empty patch" in record.notes[0]


def test_unknown_usage_is_absent_and_zero_is_kept():
    record = Record.from_rollout(rollout(score={"reward": 1}, usage=Usage(output=0)), agent="a")
    assert record.to_data()["usage"] == {"output": 0}
    assert "usage" not in Record.from_rollout(rollout(score={"reward": 1}, usage=Usage()), agent="a").to_data()


@pytest.mark.parametrize(("score", "resolved"), [({"reward": 0.7, "resolved": True}, True), ({"reward": 1.0}, True)])
def test_resolved_is_what_the_scorer_said(score, resolved):
    score.setdefault("resolved", True)
    record = Record.from_rollout(rollout(score=score), agent="a")
    assert Record.model_validate_json(record.to_line()).resolved is resolved


def test_a_full_reward_that_is_not_resolved_stays_unresolved():
    record = Record.from_rollout(rollout(score={"reward": 1.0, "resolved": False}), agent="a")
    assert Record.model_validate_json(record.to_line()).resolved is False


def test_anything_becomes_strict_json():
    thing = {1: float("nan"), "b": b"\xff", "s": {3, 1}, "o": object, "n": [math.inf, None, True]}
    assert json.loads(dump_line(plain(thing)), parse_constant=pytest.fail)
