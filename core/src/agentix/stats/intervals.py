"""95 % intervals of a mean reward: which one is taken, and why.

- Rewards that are all 0 or 1, one trial a case: the Wilson score interval (Wilson 1927), which keeps its coverage for
  few trials and near 0 and 1 (Brown, Cai and DasGupta 2001, "Interval Estimation for a Binomial Proportion").
- Otherwise: mean ± t · standard error, the standard error clustered by case, with as many degrees of freedom as there
  are cases less one (Liang and Zeger 1986; Miller 2024, "Adding Error Bars to Evals"). Trials of one case
  resemble each other; taken as independent they would make the interval too narrow. With one trial a case it is
  Student's interval.
- Where nothing varies that interval would be a point, which claims to know too much. It is then Wilson's with one
  observation a case: a reward in [0, 1] varies no more than a 0 or 1 with the same mean.
- With one case there is nothing to learn of other cases: its trials are taken as independent, and the interval is
  about that case only.

Bootstrap intervals were not taken: they are random, and of few observations too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

Method = Literal["wilson", "t", "t clustered by case", "wilson over cases"]

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Where a mean is, with 95 % confidence."""

    low: float
    high: float
    method: Method


def wilson(successes: float, n: int, *, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The Wilson score interval of a proportion.

    Args:
        successes: How many of n; a sum of values in [0, 1] gives an interval that is too wide rather than too narrow.
        n: Observations, at least 1.
        confidence: Of the interval.
    """
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    p, scale = successes / n, 1 + z * z / n
    center = (p + z * z / (2 * n)) / scale
    half = z * math.sqrt(max(0.0, p * (1 - p)) / n + z * z / (4 * n * n)) / scale
    return max(0.0, min(p, center - half)), min(1.0, max(p, center + half))


def mean_interval(clusters: Sequence[Sequence[float]]) -> Interval | None:
    """The interval of the mean over all values; `None` where too little is there, or SciPy is missing.

    Args:
        clusters: The values of each case; none is empty.
    """
    values = [value for cluster in clusters for value in cluster]
    if not values:
        return None
    single = all(len(cluster) == 1 for cluster in clusters)
    alone = len(clusters) == 1
    bounded = all(0 <= value <= 1 for value in values)
    if all(value in (0, 1) for value in values) and (single or alone):
        return _interval(wilson(sum(values), len(values)), "wilson")
    groups = [[value] for value in values] if alone else clusters
    error = clustered_error(groups)
    if error is None or error == 0:
        if not bounded:
            return None
        mean = math.fsum(values) / len(values)
        return _interval(wilson(mean * len(groups), len(groups)), "wilson over cases")
    quantile = t_quantile(len(groups) - 1)
    if quantile is None:
        return None
    mean = math.fsum(values) / len(values)
    low, high = mean - quantile * error, mean + quantile * error
    if bounded:
        low, high = max(0.0, low), min(1.0, high)
    return _interval((low, high), "t" if single or alone else "t clustered by case")


def clustered_error(clusters: Sequence[Sequence[float]]) -> float | None:
    """The standard error of the mean over all values, clustered; `None` for fewer than two clusters.

    With the usual correction for few clusters, G / (G - 1): of clusters of one value it is then s / √n.
    """
    count = len(clusters)
    if count < 2:
        return None
    n = sum(len(cluster) for cluster in clusters)
    mean = math.fsum(value for cluster in clusters for value in cluster) / n
    # The rest of a subtraction of equal sums is noise of rounding, not variation.
    squares = math.fsum(math.fsum(value - mean for value in cluster) ** 2 for cluster in clusters)
    error = math.sqrt(squares * count / (count - 1)) / n
    return 0.0 if error < 1e-12 * max(1.0, abs(mean)) else error


def t_quantile(df: int, *, confidence: float = CONFIDENCE) -> float | None:
    """The two-sided quantile of Student's t; `None` where SciPy is not installed."""
    try:
        from scipy.stats import t
    except ModuleNotFoundError:
        return None
    return float(t.ppf(0.5 + confidence / 2, df))


def _interval(bounds: tuple[float, float], method: Method) -> Interval:
    return Interval(low=bounds[0], high=bounds[1], method=method)
