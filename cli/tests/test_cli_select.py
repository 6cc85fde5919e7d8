from __future__ import annotations

import pytest

from agentix.cli.select import Selection
from agentix.errors import DatasetError, UsageError


def instances(*names):
    return [{"instance_id": name} for name in names]


def ids(chosen):
    return [instance["instance_id"] for instance in chosen]


DJANGO = instances("django-1", "django-2", "flask-1", "flask[x]", "Sympy-9")


def test_everything_is_chosen_in_the_order_of_the_dataset():
    assert ids(Selection().apply(DJANGO)) == ["django-1", "django-2", "flask-1", "flask[x]", "Sympy-9"]


def test_globs_and_ids_are_united_in_the_order_of_the_dataset():
    assert ids(Selection(patterns=("flask-1", "django*")).apply(DJANGO)) == ["django-1", "django-2", "flask-1"]


def test_an_id_that_looks_like_a_glob_is_an_id_first():
    assert ids(Selection(patterns=("flask[x]",)).apply(DJANGO)) == ["flask[x]"]


def test_a_limit_reads_the_dataset_no_further():
    def endless():
        number = 0
        while True:
            number += 1
            yield {"instance_id": str(number)}

    assert ids(Selection(limit=3).apply(endless())) == ["1", "2", "3"]


def test_a_sample_is_the_same_again_for_one_seed_and_keeps_the_order():
    many = instances(*(f"{number:03}" for number in range(100)))
    first, again, other = (ids(Selection(sample=10, seed=seed).apply(many)) for seed in (1, 1, 2))
    assert first == again == sorted(first)
    assert first != other
    assert len(set(first)) == 10


def test_a_sample_larger_than_the_dataset_is_all_of_it():
    assert len(Selection(sample=99).apply(DJANGO)) == 5


@pytest.mark.parametrize("pattern", ["nosuch", "djongo*", "sympy-9", "DJANGO*"])
def test_a_pattern_that_matches_nothing_is_an_error_with_near_matches(pattern):
    with pytest.raises(UsageError, match=r"of 5 instances none matches") as caught:
        Selection(patterns=(pattern, "flask-1")).apply(DJANGO)
    if pattern != "nosuch":
        assert any(name in str(caught.value) for name in ("django-1", "Sympy-9"))
    assert "…" not in str(caught.value)


def test_every_pattern_without_a_match_is_named():
    with pytest.raises(UsageError, match=r"(?s)'a1'.*'b2'"):
        Selection(patterns=("a1", "flask-1", "b2")).apply(DJANGO)


def test_two_instances_with_one_id_are_refused_with_both_places():
    twins = [{"instance_id": "a", "path": "/x/a"}, {"instance_id": "b"}, {"instance_id": "a", "path": "/y/a"}]
    with pytest.raises(DatasetError, match=r"number 1.*number 3 \(/y/a\)"):
        Selection().apply(twins)


@pytest.mark.parametrize("bad", [{}, {"instance_id": ""}, {"instance_id": 7}, "task"])
def test_an_instance_without_an_id_is_refused_with_its_place(bad):
    with pytest.raises(DatasetError, match="instance 2"):
        Selection().apply([{"instance_id": "a"}, bad])


def test_an_empty_dataset_is_an_error():
    with pytest.raises(UsageError, match="no instances"):
        Selection().apply([])
