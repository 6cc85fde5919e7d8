"""Trial ids are unique and safe in a path for any instance id."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.models import slug, trial_id

NAMES = st.text(st.characters(codec=None), min_size=1, max_size=400)


@pytest.mark.parametrize("name", ["django__django-11099", "a", "A.b_c-d", "owner__repo.deadbeef.func_x__1", "_"])
def test_a_safe_name_stays_as_it_is(name: str) -> None:
    assert slug(name) == name


@pytest.mark.parametrize(
    "name", ["a/b", "..", ".", "a b", "x" * 300, "🚀", "-rf", ".hidden", "a..b", "a-", "\udcff", "a\n"]
)
def test_an_unsafe_name_is_altered_and_marked_with_its_hash(name: str) -> None:
    assert re.fullmatch(r"(?:[A-Za-z0-9_][A-Za-z0-9._-]*-)?[0-9a-f]{8}", slug(name))


def test_a_name_that_looks_like_an_altered_one_cannot_take_its_place() -> None:
    altered = slug("a/")
    assert slug(altered) != altered


@given(NAMES)
def test_every_id_is_one_short_path_component(name: str) -> None:
    made = trial_id(name, index=12)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*-12", made)
    assert ".." not in made
    assert len(made) <= 130


@given(NAMES, NAMES)
def test_different_names_have_different_slugs(one: str, other: str) -> None:
    assert (slug(one) == slug(other)) == (one == other)


@given(NAMES, NAMES, NAMES)
def test_three_long_names_still_fit_a_file_name(case: str, agent: str, spec: str) -> None:
    assert len(trial_id(case, agent, spec, index=10**6)) <= 220
