from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.plugins.datasets.harbor.reward import BadReward, choose, parse_json, parse_text, read_reward

finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    "data",
    [
        b"nan",
        b"Infinity",
        b"-inf",
        b"1_0",
        b"true",
        b'"1"',
        b"1e400",
        b"0x1",
        b"",
        b"\n",
        b"1\n2",
        b"1 2",
        b"\xef\xbb\xbf1",
        b"one",
        b"1,5",
        b"\xd9\xa1",
        b"1\x00",
        b"--1",
        b"1e",
        b".",
        b"{}",
        b"\xff",
    ],
)
def test_what_is_not_one_finite_number_is_no_reward(data: bytes) -> None:
    with pytest.raises(BadReward):
        parse_text(data)
    with pytest.raises(BadReward, match=r"^reward\.txt: "):
        read_reward(json_data=None, text_data=data)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"1", 1.0),
        (b"0\n", 0.0),
        (b" 0.5 \r\n", 0.5),
        (b".5", 0.5),
        (b"1.", 1.0),
        (b"-0.1", -0.1),
        (b"1.5", 1.5),
        (b"+1", 1.0),
        (b"1e-3", 0.001),
        (b"007", 7.0),
        (b"-0", 0.0),
    ],
)
def test_any_finite_number_is_a_reward(data: bytes, value: float) -> None:
    assert parse_text(data) == value


@pytest.mark.parametrize(
    "data",
    [
        b"nan",
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"true",
        b'"1"',
        b"1e400",
        b"0x1",
        b"",
        b"  ",
        b"1\n2",
        b"null",
        b"{",
        b"\xef\xbb\xbf1",
        b"[1]",
        b"{}",
        b'{"reward": null}',
        b'{"reward": true}',
        b'{"reward": "1"}',
        b"1_0",
        b'{"a": {"b": 1}}',
        b'{"a": NaN}',
        b'{"a": 1e400}',
        b'{"a": 1, "a": 2}',
        b'{"\\ud800": 1}',
        b"\xff",
        b'{"a": 1' + b"0" * 400 + b"}",
        b"1" * 5000,
        b"[" * 60000,
        b'{"a":' * 20000,
    ],
)
def test_json_that_is_no_flat_object_of_finite_numbers_is_no_reward(data: bytes) -> None:
    with pytest.raises(BadReward) as caught:
        read_reward(json_data=data, text_data=b"1")
    assert str(caught.value).startswith("reward.json: ")
    assert len(str(caught.value)) < 400


def test_nothing_at_all_is_no_reward() -> None:
    with pytest.raises(BadReward, match="neither"):
        read_reward(json_data=None, text_data=None)


@given(finite)
def test_a_number_comes_back_from_either_file(value: float) -> None:
    assert parse_text(repr(value).encode()) == value
    assert parse_json(json.dumps(value).encode()) == value


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), finite, min_size=1))
def test_every_number_of_an_object_is_a_metric(numbers: dict[str, float]) -> None:
    reward = read_reward(json_data=json.dumps(numbers).encode(), text_data=None)
    assert reward.metrics == numbers
    assert math.isfinite(reward.value)


@given(st.binary(max_size=200))
def test_bytes_are_a_finite_reward_or_an_error(data: bytes) -> None:
    for json_data, text_data in ((data, None), (None, data), (data, data)):
        try:
            reward = read_reward(json_data=json_data, text_data=text_data)
        except BadReward:
            continue
        assert math.isfinite(reward.value)


@given(st.text(alphabet="0123456789+-.eE_ \n", max_size=12))
def test_what_is_taken_from_text_is_what_float_makes_of_it(text: str) -> None:
    try:
        value = parse_text(text.encode())
    except BadReward:
        return
    assert value == float(text)


@pytest.mark.parametrize(
    ("metrics", "key", "value", "rule"),
    [
        ({"reward": 0.25, "a": 1.0}, None, 0.25, "key reward"),
        ({"passed": 0.5}, None, 0.5, "only key passed"),
        ({"a": 1.0, "b": 0.0}, None, 0.5, "mean of 2 keys"),
        ({"reward": 0.25, "a": 1.0}, "a", 1.0, "reward_key a"),
    ],
)
def test_the_rule_that_chose_the_reward_is_told(
    metrics: dict[str, float], key: str | None, value: float, rule: str
) -> None:
    assert choose(metrics, key=key) == (value, rule)


def test_a_mean_does_not_overflow() -> None:
    assert choose({"a": 1.7e308, "b": 1.7e308})[0] == pytest.approx(1.7e308)


def test_a_key_that_is_asked_for_and_missing_is_no_reward() -> None:
    with pytest.raises(BadReward, match="has no key 'speed'"):
        read_reward(json_data=b'{"a": 1}', text_data=None, key="speed")


def test_a_bare_number_has_no_keys_to_choose_from() -> None:
    assert read_reward(json_data=b"0.5", text_data=None, key="speed").value == 0.5
    assert read_reward(json_data=None, text_data=b"0.5", key="speed").rule == "number"


@pytest.mark.parametrize(
    ("text", "other"), [(b"1", None), (b"1.0\n", None), (b"0", "0.0"), (b"x", "'x' is not a number")]
)
def test_json_wins_and_a_text_that_disagrees_is_recorded(text: bytes, other: str | None) -> None:
    reward = read_reward(json_data=b'{"reward": 1}', text_data=text)
    assert (reward.value, reward.source, reward.other) == (1.0, "reward.json", other)
