"""What a scorer may return, and what is never read as a 0 or a 1."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.errors import VerifierError
from agentix.runner import check_score


@pytest.mark.parametrize(
    ("raw", "reward", "resolved"),
    [
        ({"reward": 1}, 1.0, True),
        ({"reward": 0.99}, 0.99, False),
        ({"reward": -2.5}, -2.5, False),
        ({"reward": 7}, 7.0, True),
        ({"resolved": True}, 1.0, True),
        ({"resolved": False}, 0.0, False),
        ({"reward": 0.2, "resolved": True}, 0.2, True),
        ({"reward": 1, "resolved": False}, 1.0, False),
        ({"reward": None, "resolved": True}, 1.0, True),
        ({"reward": Fraction(1, 2)}, 0.5, False),
    ],
)
def test_a_valid_score_has_both_reward_and_resolved(raw: dict[str, Any], reward: float, resolved: bool) -> None:
    score = check_score(raw)
    assert (score["reward"], score["resolved"]) == (reward, resolved)
    assert type(score["reward"]) is float


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (None, "NoneType None, not a dict"),
        ([1], "not a dict"),
        (1.0, "not a dict"),
        ({}, "no reward"),
        ({"metrics": {"a": 1}}, "no reward"),
        ({"reward": None}, "no reward"),
        ({"reward": True}, "reward is bool True, not a number"),
        ({"reward": "1"}, "reward is str '1', not a number"),
        ({"reward": math.nan}, "finite"),
        ({"reward": math.inf}, "finite"),
        ({"reward": -math.inf}, "finite"),
        ({"reward": 10**400}, "finite"),
        ({"reward": [1]}, "not a number"),
        ({"resolved": 1}, "resolved is int 1, not true or false"),
        ({"resolved": "true"}, "not true or false"),
        ({"reward": 1, "metrics": [1]}, "metrics is list"),
        ({"reward": 1, "metrics": {"a": None}}, "metrics.a is NoneType"),
        ({"reward": 1, "metrics": {"a": True}}, "metrics.a is bool"),
        ({"reward": 1, "metrics": {"a": math.nan}}, "metrics.a"),
        ({"reward": 1, "metrics": {1: 1}}, "key int 1"),
        ({"reward": 1, "log": b"x"}, "log is bytes"),
        ({"reward": 1, "log": {"deep": [0, object()]}}, r"log.deep\[1\]"),
        ({"reward": 1, "log": {3: 4}}, "not a string"),
        ({"reward": 1, "other": math.nan}, "other is float nan"),
    ],
)
def test_an_invalid_score_is_an_error_that_says_what_and_where(raw: object, says: str) -> None:
    with pytest.raises(VerifierError, match=says) as caught:
        check_score(raw)
    assert caught.value.detail == "invalid_reward"


def test_a_score_that_holds_itself_is_an_error() -> None:
    raw: dict[str, Any] = {"reward": 1}
    raw["again"] = raw
    with pytest.raises(VerifierError, match="too deeply"):
        check_score(raw)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.floats(allow_nan=False, allow_infinity=False), st.dictionaries(st.text(), JSON, max_size=4))
def test_what_passes_is_strict_json_and_its_own_copy(reward: float, more: dict[str, Any]) -> None:
    raw = {k: v for k, v in more.items() if k not in ("metrics", "resolved")} | {"reward": reward}
    score = check_score(raw)
    assert json.loads(json.dumps(score, allow_nan=False)) == score
    assert {k: score[k] for k in raw} == raw
    assert score is not raw
