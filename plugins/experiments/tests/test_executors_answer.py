"""Reading what an external executor left."""

from __future__ import annotations

import os
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentix.api import FailureCode
from agentix.plugins.experiments.steps.executors import read_answer


def read(directory, *, exit_code=0, **ending):
    return read_answer(directory, exit_code=exit_code, **ending)


@pytest.mark.parametrize(
    ("text", "reward"),
    [("1", 1.0), ("0", 0.0), (" 0.25\n", 0.25), ("1e-3", 0.001), (".5", 0.5), ("+1.", 1.0)],
)
def test_one_number_is_a_reward(tmp_path, text, reward):
    (tmp_path / "reward.txt").write_text(text)
    answer = read(tmp_path)
    assert (answer.reward, answer.failure) == (reward, None)


@pytest.mark.parametrize(
    "text",
    ["", "nan", "NaN", "inf", "-0.1", "1.1", "1e400", "1 0", "1,0", "0x1", "1_0", "٠.٥", "\ufeff1", "true", "{}"],
)
def test_anything_else_is_no_reward_and_not_zero(tmp_path, text):
    (tmp_path / "reward.txt").write_text(text)
    answer = read(tmp_path)
    assert answer.reward is None
    assert answer.failure is not None
    assert answer.failure.code is FailureCode.VERIFIER_ERROR


@pytest.mark.parametrize(
    ("text", "reward", "metrics"),
    [
        ('{"reward": 0.5, "lint": 3, "name": "x", "ok": true}', 0.5, {"lint": 3.0}),
        ("0.5", 0.5, {}),
        ('{"reward": NaN}', None, {}),
        ('{"reward": true}', None, {}),
        ('{"reward": "1"}', None, {}),
        ('{"reward": 2}', None, {}),
        ('{"score": 1}', None, {}),
        ("[1]", None, {}),
        ("{", None, {}),
        ("[" * 100_000, None, {}),
    ],
)
def test_reward_json_has_a_reward_and_metrics(tmp_path, text, reward, metrics):
    (tmp_path / "reward.json").write_text(text)
    answer = read(tmp_path)
    assert (answer.reward, dict(answer.metrics)) == (reward, metrics)
    assert (answer.failure is None) == (reward is not None)


def test_reward_text_wins_over_json_and_an_unusable_one_is_told(tmp_path):
    (tmp_path / "reward.json").write_text('{"reward": 0.25}')
    (tmp_path / "reward.txt").write_text("0.75")
    assert read(tmp_path).reward == 0.75
    (tmp_path / "reward.txt").write_text("nan")
    answer = read(tmp_path)
    assert answer.reward == 0.25
    assert "reward.txt: 'nan' is not one number" in answer.notes[0]


@pytest.mark.parametrize(
    "code", ["AGENT_TIMEOUT", "AGENT_FAILED", "AGENT_LIMIT", "ENV_FAILED", "HOST_ERROR", "VERIFIER_ERROR"]
)
def test_a_declared_failure_wins_over_a_reward_and_the_exit_status(tmp_path, code):
    (tmp_path / "failure.txt").write_text(f"{code}\nthe reason\nin two lines\n")
    (tmp_path / "reward.txt").write_text("1")
    answer = read(tmp_path, exit_code=0)
    assert answer.reward is None
    assert answer.failure is not None
    assert (answer.failure.code, answer.failure.message) == (code, "the reason\nin two lines")


@pytest.mark.parametrize(
    "text", ["", "\n", "OOPS\nwhy", "agent_failed", "CANCELLED", "STEP_FAILED", "AGENT_FAILED: no"]
)
def test_an_unknown_code_is_the_machine_s(tmp_path, text):
    (tmp_path / "failure.txt").write_text(text)
    failure = read(tmp_path).failure
    assert failure is not None
    assert (failure.code, failure.detail) == (FailureCode.HOST_ERROR, "unknown_code")


@pytest.mark.parametrize(
    ("ending", "code", "detail"),
    [
        ({"exit_code": 1}, "ENV_FAILED", "no_answer"),
        ({"exit_code": 137, "signal": "SIGKILL"}, "ENV_FAILED", "no_answer"),
        ({"exit_code": 75}, "HOST_ERROR", "try_later"),
        ({"exit_code": 137, "timed_out": True}, "HOST_ERROR", "command_timeout"),
        ({"exit_code": 0}, "VERIFIER_ERROR", "no_reward"),
    ],
)
def test_without_an_answer_the_ending_tells_whose_failure_it_is(tmp_path, ending, code, detail):
    failure = read(tmp_path, said="the last words", **ending).failure
    assert failure is not None
    assert (failure.code, failure.detail) == (code, detail)
    assert "the last words" in failure.message
    assert not failure.code.is_agents


def test_a_reward_stands_whatever_the_ending_and_that_is_noted(tmp_path):
    (tmp_path / "reward.txt").write_text("1")
    answer = read(tmp_path, exit_code=3)
    assert answer.reward == 1.0
    assert answer.notes == ("the executor ended with exit status 3 after it had left a reward",)


@pytest.mark.parametrize("name", ["reward.txt", "failure.txt", "reward.json"])
@pytest.mark.parametrize("kind", ["directory", "link", "fifo", "huge", "bytes"])
def test_what_is_no_plain_file_is_not_read(tmp_path, name, kind):
    path = tmp_path / "out" / name
    path.parent.mkdir()
    (tmp_path / "outside").write_text("1")
    if kind == "directory":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(tmp_path / "outside")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(2 << 30)
    else:
        path.write_bytes(b"\xff\xfe1")
    answer = read(path.parent)
    assert answer.reward is None
    assert answer.failure is not None
    assert answer.failure.code in (FailureCode.VERIFIER_ERROR, FailureCode.HOST_ERROR)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=200, deadline=None
)
@given(
    files=st.dictionaries(
        st.sampled_from(["reward.txt", "reward.json", "failure.txt"]),
        st.one_of(st.binary(max_size=40), st.text(string.printable, max_size=40).map(str.encode)),
    ),
    exit_code=st.integers(0, 255),
    timed_out=st.booleans(),
)
def test_there_is_always_exactly_one_of_reward_and_failure(tmp_path_factory, files, exit_code, timed_out):
    directory = tmp_path_factory.mktemp("out")
    for name, data in files.items():
        (directory / name).write_bytes(data)
    answer = read_answer(directory, exit_code=exit_code, timed_out=timed_out)
    assert (answer.reward is None) != (answer.failure is None)
    assert answer.reward is None or 0 <= answer.reward <= 1
