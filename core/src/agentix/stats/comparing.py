"""Two runs of the same cases against each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agentix.errors import AgentixError
from agentix.stats.intervals import Interval, mean_interval
from agentix.stats.numbers import AgentNumbers, CaseTrials

EXACT_UP_TO = 16
"""With so many cases all sign changes are looked at; with more, a sample of them."""
RESAMPLES = 9999
SEED = 20240607
"""The same runs give the same p-value every time."""
_SAME = 1e-12
_BATCH = 500_000
"""Values that are held at a time while signs are changed."""


@dataclass(frozen=True, kw_only=True)
class CaseDifference:
    """A case that both have measured."""

    case: str
    a: float
    """Mean reward."""
    b: float

    @property
    def difference(self) -> float:
        """B less a; a difference that is only rounding is none."""
        value = self.b - self.a
        return 0.0 if abs(value) < _SAME else value


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two rows, paired by case. Everything is b against a."""

    a: str
    b: str
    cases: tuple[CaseDifference, ...]
    only_a: tuple[str, ...] = ()
    """Cases that only a has measured."""
    only_b: tuple[str, ...] = ()
    interval: Interval | None = None
    """Of the mean difference, over cases."""
    sign_p: float | None = None
    """Of the sign test on wins and losses: were neither better, how often would they be as unequal or more."""
    permutation_p: float | None = None
    """Of the paired permutation test on the mean difference."""
    permutation: Literal["exact", "sampled"] | None = None

    @property
    def mean_a(self) -> float | None:
        """Mean over the cases that both have."""
        return _mean([case.a for case in self.cases])

    @property
    def mean_b(self) -> float | None:
        """Mean over the cases that both have."""
        return _mean([case.b for case in self.cases])

    @property
    def difference(self) -> float | None:
        """Mean difference over the cases that both have; every case counts the same, however many trials it has."""
        return _mean([case.difference for case in self.cases])

    @property
    def wins(self) -> int:
        """Cases in which b is better."""
        return sum(case.difference > 0 for case in self.cases)

    @property
    def losses(self) -> int:
        """Cases in which a is better."""
        return sum(case.difference < 0 for case in self.cases)

    @property
    def ties(self) -> int:
        """Cases in which neither is."""
        return len(self.cases) - self.wins - self.losses

    def to_data(self) -> dict[str, Any]:
        """Everything as plain data; `null` is unknown."""
        interval = self.interval
        return {
            "a": self.a,
            "b": self.b,
            "mean_a": self.mean_a,
            "mean_b": self.mean_b,
            "difference": self.difference,
            "interval": None
            if interval is None
            else {"low": interval.low, "high": interval.high, "method": interval.method},
            "wins": self.wins,
            "losses": self.losses,
            "ties": self.ties,
            "sign_p": self.sign_p,
            "permutation_p": self.permutation_p,
            "permutation": self.permutation,
            "cases": [{"case": c.case, "a": c.a, "b": c.b, "difference": c.difference} for c in self.cases],
            "only_a": list(self.only_a),
            "only_b": list(self.only_b),
        }


def compare(a: AgentNumbers, b: AgentNumbers, *, names: tuple[str, str] | None = None) -> Comparison:
    """Compare two rows case by case.

    The interval is Student's over the differences of the cases, which needs no guess of how trials of one case hang
    together (Miller 2024, "Adding Error Bars to Evals").

    Args:
        a: What is compared against.
        b: What is compared.
        names: What to call the two.

    Raises:
        AgentixError: SciPy is not installed.
    """
    cases = tuple(
        CaseDifference(case=case, a=trials.mean, b=b.cases[case].mean)
        for case, trials in sorted(a.cases.items())
        if case in b.cases
    )
    differences = [case.difference for case in cases]
    permutation_p, how = permutation_test(differences)
    called = names or (a.name, b.name)
    return Comparison(
        a=called[0],
        b=called[1],
        cases=cases,
        only_a=_only(a.cases, b.cases),
        only_b=_only(b.cases, a.cases),
        interval=difference_interval(differences),
        sign_p=sign_test(sum(d > 0 for d in differences), sum(d < 0 for d in differences)),
        permutation_p=permutation_p,
        permutation=how,
    )


def difference_interval(differences: Sequence[float]) -> Interval | None:
    """Student's interval of a mean difference; `None` for fewer than two, or where none differs from another."""
    if len(differences) < 2 or max(differences) - min(differences) < _SAME:
        return None
    # Shifted out of [0, 1], so that it is not taken for the interval of rewards.
    shift = 2.0 - min(differences)
    interval = mean_interval([[difference + shift] for difference in differences])
    if interval is None:
        return None
    return Interval(low=interval.low - shift, high=interval.high - shift, method="t")


def sign_test(wins: int, losses: int) -> float | None:
    """Two-sided p-value of the sign test, ties left out (Dixon and Mood 1946); `None` where all are ties.

    Raises:
        AgentixError: SciPy is not installed.
    """
    if wins + losses == 0:
        return None
    return float(_scipy_stats().binomtest(wins, wins + losses, 0.5).pvalue)


def permutation_test(differences: Sequence[float]) -> tuple[float | None, Literal["exact", "sampled"] | None]:
    """Two-sided p-value of Fisher's paired permutation test on the mean, and whether it is exact.

    Fisher 1935, "The Design of Experiments", section 21. Where there are too many sign changes to look at all of them,
    a sample with a fixed seed is taken, and the p-value counts what was observed as one of it (Phipson and Smyth 2010).

    Raises:
        AgentixError: SciPy is not installed.
    """
    if len(differences) < 2:
        return None, None
    exact = len(differences) <= EXACT_UP_TO
    result = _scipy_stats().permutation_test(
        (list(differences),),
        _means,
        permutation_type="samples",
        vectorized=True,
        n_resamples=math.inf if exact else RESAMPLES,
        batch=max(1, _BATCH // len(differences)),
        alternative="two-sided",
        random_state=SEED,
    )
    return float(result.pvalue), "exact" if exact else "sampled"


def _means(values: Any, axis: int) -> Any:
    return values.mean(axis=axis)


def _scipy_stats() -> Any:
    try:
        from scipy import stats
    except ModuleNotFoundError:
        raise AgentixError(
            "comparing needs SciPy, which is not installed",
            hint="Install it with: pip install 'agentix-rollouts-core[stats]'",
        ) from None
    return stats


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _only(here: Mapping[str, CaseTrials], there: Mapping[str, CaseTrials]) -> tuple[str, ...]:
    return tuple(sorted(here.keys() - there.keys()))
