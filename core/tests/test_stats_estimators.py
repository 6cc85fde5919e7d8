"""Estimators against published values, and against counting everything."""

from __future__ import annotations

import math
import statistics
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.stats import (
    clustered_error,
    mean_interval,
    pass_at_k,
    pass_hat_k,
    permutation_test,
    quantile,
    sign_test,
    wilson,
)
from agentix.stats.comparing import difference_interval

SLEEP = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]
"""Additional hours of sleep, "Student" 1908; in R `t.test(extra ~ group, data = sleep, paired = TRUE)`."""
ZEA_MAYS = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
"""Darwin's plants, in eighths of an inch; Fisher 1935, "The Design of Experiments"."""


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0000, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_is_as_published(successes, n, low, high):
    """Newcombe 1998, "Two-sided confidence intervals for the single proportion", table I, method 3."""
    assert wilson(successes, n) == pytest.approx((low, high), abs=5e-5)


def test_students_interval_is_as_published():
    found = mean_interval([[value] for value in SLEEP])
    assert found is not None and found.method == "t"
    assert (found.low, found.high) == pytest.approx((0.7001142, 2.4598858), abs=1e-7)


def test_fishers_permutation_test_is_as_published():
    assert permutation_test(ZEA_MAYS) == (pytest.approx(2 * 863 / 32768), "exact")


def test_the_interval_of_darwins_differences_is_as_published():
    """Fisher 1935, section 17: a mean of 20.93 eighths, t = 2.148 with 14 degrees of freedom."""
    found = difference_interval([value / 8 for value in ZEA_MAYS])
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.0039, 5.2294), abs=5e-5)


def test_the_sign_test_is_a_sum_of_binomials():
    assert sign_test(13, 2) == pytest.approx(2 * (1 + 15 + 105) / 2**15)
    assert sign_test(5, 5) == 1.0 and sign_test(0, 0) is None


def test_many_cases_are_sampled_and_the_same_p_value_comes_out_every_time():
    values = [*ZEA_MAYS, 3, -3, 5]
    first = permutation_test(values)
    assert first == permutation_test(values) and first[1] == "sampled"
    assert permutation_test([1.0] * 40)[0] == pytest.approx(2 / 10_000)


@pytest.mark.parametrize(
    ("n", "c", "k", "value"), [(6, 3, 1, 0.5), (10, 3, 5, 11 / 12), (5, 0, 3, 0.0), (5, 3, 3, 1.0)]
)
def test_pass_at_k_is_the_formula_of_chen_et_al(n, c, k, value):
    product = 1.0 if n - c < k else 1 - math.prod(1 - k / i for i in range(n - c + 1, n + 1))
    assert pass_at_k(n, c, k) == pytest.approx(value)
    if n - c >= k:
        assert pass_at_k(n, c, k) == pytest.approx(product)


@given(st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_both_estimates_are_the_share_of_all_choices_of_k_trials(given_):
    n, c, k = given_
    choices = list(combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, choices)) / len(choices))
    assert pass_hat_k(n, c, k) == pytest.approx(sum(map(all, choices)) / len(choices))


@pytest.mark.parametrize(("n", "c", "k"), [(3, 4, 1), (3, 1, 4), (3, 1, 0), (0, 0, 1), (3, -1, 1)])
def test_what_cannot_be_estimated_is_refused(n, c, k):
    for estimate in (pass_at_k, pass_hat_k):
        with pytest.raises(ValueError, match="are asked for"):
            estimate(n, c, k)


def test_quantiles_are_those_of_r_and_numpy():
    """`quantile(1:10)` in R: 1.00 3.25 5.50 7.75 10.00."""
    values = list(range(1, 11))
    assert [quantile(values, q) for q in (0, 0.25, 0.5, 0.75, 1)] == [1, 3.25, 5.5, 7.75, 10]
    assert quantile([], 0.5) is None and quantile([3.0], 0.9) == 3.0


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_quartiles_agree_with_the_standard_library(values):
    ordered = sorted(values)
    expected = statistics.quantiles(values, n=4, method="inclusive")
    assert [quantile(ordered, q) for q in (0.25, 0.5, 0.75)] == pytest.approx(expected, abs=1e-6)


def test_trials_of_one_case_do_not_count_as_independent():
    cases = [[1.0] * 5, [0.0] * 5, [1.0] * 5, [0.0] * 5, [1.0] * 5, [1.0] * 5]
    clustered = mean_interval(cases)
    once = mean_interval([[case[0]] for case in cases])
    alone = mean_interval([[value for case in cases for value in case]])
    assert clustered is not None and once is not None and alone is not None
    assert clustered.method == "t clustered by case" and alone.method == "wilson"
    assert clustered.high - clustered.low > alone.high - alone.low
    # Repeating what never differs teaches nothing.
    assert clustered_error(cases) == pytest.approx(clustered_error([[case[0]] for case in cases]))


def test_clustering_by_hand():
    """Three clusters, residuals -0.5, 0 and 0.5: √(0.5 · 3/2) / 6, with the correction for few clusters."""
    cases = [[0.25, 0.25], [0.5, 0.5], [0.75, 0.75]]
    assert clustered_error(cases) == pytest.approx(math.sqrt(0.5 * 3 / 2) / 6)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_clusters_of_one_give_the_ordinary_standard_error(values):
    expected = statistics.stdev(values) / math.sqrt(len(values))
    assert clustered_error([[value] for value in values]) == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=5), min_size=1, max_size=8))
def test_an_interval_of_rewards_holds_their_mean_and_stays_within_0_and_1(cases):
    found = mean_interval(cases)
    values = [value for case in cases for value in case]
    assert found is not None
    assert 0 <= found.low <= sum(values) / len(values) + 1e-9
    assert sum(values) / len(values) - 1e-9 <= found.high <= 1
    assert found.high > found.low


def test_where_nothing_varies_the_interval_is_no_point():
    found = mean_interval([[1.0] * 5] * 10)
    assert found is not None and found.method == "wilson over cases"
    assert (found.low, found.high) == pytest.approx(wilson(10, 10))
    assert mean_interval([[7.0], [7.0]]) is None and mean_interval([]) is None


def test_without_scipy_there_is_wilson_and_nothing_is_made_up(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    assert mean_interval([[0.0], [1.0]]) is not None
    assert mean_interval([[0.2], [0.4]]) is None
