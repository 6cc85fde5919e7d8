from __future__ import annotations

import pytest

from agentix.cli.values import parse_duration, parse_pairs
from agentix.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"), [("90", 90), ("1.5", 1.5), ("90s", 90), ("30m", 1800), ("1h30m", 5400), ("500ms", 0.5)]
)
def test_durations(text, expected):
    assert parse_duration(text, where="--timeout") == expected


@pytest.mark.parametrize("text", ["", "0", "-1", "nan", "inf", "1x", "h", "1h 30m", "0s"])
def test_what_is_no_duration_names_the_option(text):
    with pytest.raises(ConfigError, match="--timeout"):
        parse_duration(text, where="--timeout")


def test_pairs_keep_everything_after_the_first_equals_sign_and_repeat_into_lists():
    assert parse_pairs(["a=1=2", "b=", "c=x", "c=y", "c=z"], where="--agent-opt") == {
        "a": "1=2",
        "b": "",
        "c": ["x", "y", "z"],
    }


@pytest.mark.parametrize("text", ["a", "=1", ""])
def test_what_is_no_pair_names_the_option(text):
    with pytest.raises(ConfigError, match="--agent-opt"):
        parse_pairs([text], where="--agent-opt")
