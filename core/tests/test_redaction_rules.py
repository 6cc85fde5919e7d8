"""Patterns are checked before anything runs, and what they match is taken out under its kind."""

from __future__ import annotations

import dataclasses
import pickle
import time
from collections import Counter

import pytest

from agentix.errors import ConfigError
from agentix.redaction import RedactionRules, Redactor, Secrets


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a|a)*b",
        r"(\w+\s?)*:",
        "(x+x+)+y",
        r"(?:[a-z]+)*@corp",
        r"\w+@corp\.example",
        ".*.*=.*",
        r"^(([a-z])+.)+[A-Z]([a-z])+$",
    ],
)
def test_a_pattern_that_may_take_for_ever_is_refused_within_seconds(pattern: str) -> None:
    began = time.thread_time()
    with pytest.raises(ConfigError, match=r"^extra_patterns\[0\]: .* takes far too long on some texts"):
        RedactionRules(extra_patterns=(pattern,))
    assert time.thread_time() - began < 20


@pytest.mark.parametrize("pattern", ["a*", "", "(?=x)", "x|", r"\b", "(a?)+"])
def test_a_pattern_that_matches_nothing_at_all_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="matches an empty text"):
        RedactionRules(extra_patterns=(pattern,))


@pytest.mark.parametrize("pattern", ["(", "[a", "(?P<1>x)", "*", 7, None, b"a"])
def test_what_is_no_pattern_is_refused(pattern: object) -> None:
    with pytest.raises(ConfigError, match=r"^patterns\['host'\]: "):
        RedactionRules(patterns={"host": pattern})  # type: ignore[dict-item]


@pytest.mark.parametrize("kind", ["", "Host", "a-b", "9", 3])
def test_a_kind_is_a_plain_word(kind: object) -> None:
    with pytest.raises(ConfigError, match="no name for a kind"):
        RedactionRules(patterns={kind: "abc"})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "pattern",
    [
        r"\b[a-z0-9-]{1,63}\.corp\.example\b",
        r"(?i)project-(?:falcon|eagle)",
        r"OPS-[0-9]{3,9}",
        r"\d{3}-\d{2}-\d{4}",
        r"[\w.+-]{1,64}@example\.com",
        r"^internal: (?P<secret>.{1,200})$",
        "geheim|秘密",
    ],
)
def test_a_plain_pattern_is_taken(pattern: str) -> None:
    assert RedactionRules(extra_patterns=(pattern,)).compiled()


def test_what_patterns_match_is_taken_out_under_their_kinds() -> None:
    rules = RedactionRules(
        extra_patterns=("OPS-[0-9]+", "秘密|é{2}"),
        patterns={"host": r"\b[a-z0-9]{1,60}\.corp\b", "note": "^note: (?P<secret>.{1,99})$"},
    )
    counts: Counter[str] = Counter()
    text = "é OPS-12 秘密 x1.corp\nnote: all of it\nnot a note: \udcff éé"
    masked = Redactor(Secrets(), rules=rules).text(text, counts=counts)
    assert masked == "é *** *** ***\nnote: ***\nnot a note: \udcff ***"
    assert counts == {"extra": 3, "host": 1, "note": 1}


def test_rules_cannot_be_changed_and_travel() -> None:
    rules = RedactionRules(extra_patterns=["OPS-[0-9]+"])  # type: ignore[arg-type]
    assert rules.extra_patterns == ("OPS-[0-9]+",)
    with pytest.raises(dataclasses.FrozenInstanceError):
        rules.ips_in_logs = True  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(rules)) == rules
    with pytest.raises(TypeError, match="not one"):
        RedactionRules(extra_patterns="abc")  # type: ignore[arg-type]
