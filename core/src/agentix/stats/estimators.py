"""Estimators that need nothing but counting."""

from __future__ import annotations

import math
from collections.abc import Sequence


def pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that at least one of k trials passes, estimated without bias from n trials of which c passed.

    1 - C(n-c, k) / C(n, k): Chen et al. 2021, "Evaluating Large Language Models Trained on Code", equation 1.

    Raises:
        ValueError: Not 0 <= c <= n and 1 <= k <= n.
    """
    _check(n, c, k)
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """The chance that all of k trials pass (pass^k), estimated without bias from n trials of which c passed.

    C(c, k) / C(n, k): Yao et al. 2024, "τ-bench: A Benchmark for Tool-Agent-User Interaction in Real-World Domains".

    Raises:
        ValueError: Not 0 <= c <= n and 1 <= k <= n.
    """
    _check(n, c, k)
    return math.comb(c, k) / math.comb(n, k)


def quantile(ordered: Sequence[float], q: float) -> float | None:
    """The q-quantile of values in ascending order, interpolated linearly; `None` where there are none.

    Definition 7 of Hyndman and Fan 1996, "Sample Quantiles in Statistical Packages"; the default of R, NumPy and Excel.
    """
    if not ordered:
        return None
    place = (len(ordered) - 1) * q
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    low, high = ordered[below], ordered[above]
    # The form a + t*(b - a) would leave the range by rounding, and overflow for huge values.
    return low if low == high else low * (1 - (place - below)) + high * (place - below)


def _check(n: int, c: int, k: int) -> None:
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"of {n} trials {c} passed, and {k} are asked for")
