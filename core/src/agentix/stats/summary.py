"""The numbers of a set of records, in one pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from agentix.models import FailureCode
from agentix.records import Record

Bucket = Literal["resolved", "unresolved", "agent_failure", "infra_failure"]

COVERAGE_FLOOR = 0.9
"""With a smaller share of the planned trials in the denominator a mean says little, and the summary says so."""


def bucket(record: Record) -> Bucket:
    """The one bucket that a trial is in."""
    if record.reward is not None:
        return "resolved" if record.resolved else "unresolved"
    return "agent_failure" if record.failure_code is not None and record.failure_code.is_agents else "infra_failure"


@dataclass
class Known:
    """A sum of values of which some may be unknown."""

    total: float = 0
    known: int = 0
    unknown: int = 0

    def add(self, value: float | None) -> None:
        """Count one value; `None` is unknown, which is not zero."""
        if value is None:
            self.unknown += 1
        else:
            self.total += value
            self.known += 1

    @property
    def sum(self) -> float | None:
        """What is known, or `None` where nothing is."""
        return self.total if self.known else None


@dataclass
class Spread:
    """The rewards of one instance's trials with one agent and model; an agent failure counts as 0."""

    n: int = 0
    total: float = 0.0
    best: float = float("-inf")
    worst: float = float("inf")

    def add(self, reward: float) -> None:
        """Count one trial of the denominator."""
        self.n += 1
        self.total += reward
        self.best = max(self.best, reward)
        self.worst = min(self.worst, reward)

    @property
    def mean(self) -> float:
        """Mean reward of the instance."""
        return self.total / self.n


@dataclass
class Summary:
    """What a set of records amounts to. Fields are sums, properties are derived from them."""

    planned: int | None = None
    """How many trials there should be; by default as many as there are records."""
    resolved: int = 0
    unresolved: int = 0
    agent_failures: int = 0
    infra_failures: int = 0
    reward_sum: float = 0.0
    by_code: Counter[FailureCode | None] = field(default_factory=Counter)
    """Trials without a reward, by failure code."""
    step_failures: int = 0
    attempts: int = 0
    seconds: Known = field(default_factory=Known)
    """Sum of the trials' durations."""
    tokens: Known = field(default_factory=Known)
    cost_usd: Known = field(default_factory=Known)
    instances: dict[tuple[str, str, str | None], Spread] = field(default_factory=dict)
    """By instance, agent and model: what several agents do on one instance is not the spread of any of them."""

    @classmethod
    def of(cls, records: Iterable[Record], *, planned: int | None = None) -> Summary:
        """Summarize records, which are read once.

        Args:
            records: Any number of them.
            planned: How many trials there should be.
        """
        summary = cls(planned=planned)
        for record in records:
            summary.add(record)
        return summary

    def add(self, record: Record) -> None:
        """Count one more record."""
        kind = bucket(record)
        if kind == "resolved":
            self.resolved += 1
        elif kind == "unresolved":
            self.unresolved += 1
        elif kind == "agent_failure":
            self.agent_failures += 1
        else:
            self.infra_failures += 1
        if record.reward is None:
            self.by_code[record.failure_code] += 1
        self.reward_sum += record.reward or 0.0
        if kind != "infra_failure":
            key = (record.case, record.agent, record.llm_spec)
            self.instances.setdefault(key, Spread()).add(record.reward or 0.0)
        self.step_failures += len(record.step_failures)
        self.attempts += record.attempts
        self.seconds.add(record.seconds)
        self.tokens.add(record.usage.tokens if record.usage else None)
        self.cost_usd.add(record.usage.cost_usd if record.usage else None)

    @property
    def n(self) -> int:
        """Trials that have a result."""
        return self.resolved + self.unresolved + self.agent_failures + self.infra_failures

    @property
    def unrun(self) -> int:
        """Planned trials without a result."""
        return 0 if self.planned is None else max(0, self.planned - self.n)

    @property
    def measured(self) -> int:
        """Trials that have a reward."""
        return self.resolved + self.unresolved

    @property
    def denominator(self) -> int:
        """What every rate is divided by: measured and failed by the agent."""
        return self.measured + self.agent_failures

    @property
    def mean_reward(self) -> float | None:
        """Over the denominator: infrastructure failures are excluded."""
        return self.reward_sum / self.denominator if self.denominator else None

    @property
    def mean_reward_infra_zero(self) -> float | None:
        """The other bound: infrastructure failures count as 0."""
        total = self.denominator + self.infra_failures
        return self.reward_sum / total if total else None

    @property
    def resolved_rate(self) -> float | None:
        """Over the denominator: infrastructure failures are excluded."""
        return self.resolved / self.denominator if self.denominator else None

    @property
    def resolved_rate_infra_zero(self) -> float | None:
        """The other bound: infrastructure failures count as not resolved."""
        total = self.denominator + self.infra_failures
        return self.resolved / total if total else None

    @property
    def coverage(self) -> float | None:
        """Measured of planned."""
        planned = self.n if self.planned is None else self.planned
        return self.measured / planned if planned else None

    @property
    def low_coverage(self) -> bool:
        """Whether infrastructure failures and unrun trials leave so few in the denominator that means say little."""
        planned = self.n + self.unrun
        return not planned or self.denominator / planned < COVERAGE_FLOOR

    def to_data(self) -> dict[str, object]:
        """Everything as plain data; `null` is unknown."""
        repeated = any(spread.n > 1 for spread in self.instances.values())
        return {
            "planned": self.n + self.unrun,
            "resolved": self.resolved,
            "unresolved": self.unresolved,
            "agent_failures": self.agent_failures,
            "infra_failures": self.infra_failures,
            "unrun": self.unrun,
            "measured": self.measured,
            "denominator": self.denominator,
            "mean_reward": self.mean_reward,
            "mean_reward_infra_zero": self.mean_reward_infra_zero,
            "resolved_rate": self.resolved_rate,
            "resolved_rate_infra_zero": self.resolved_rate_infra_zero,
            "coverage": self.coverage,
            "low_coverage": self.low_coverage,
            "failures": {str(code): count for code, count in sorted(self.by_code.items(), key=str)},
            "step_failures": self.step_failures,
            "attempts": self.attempts,
            "seconds": self.seconds.sum,
            "tokens": self.tokens.sum,
            "tokens_unknown": self.tokens.unknown,
            "cost_usd": self.cost_usd.sum,
            "cost_unknown": self.cost_usd.unknown,
            "instances": [
                {
                    "instance": case,
                    "agent": agent,
                    "llm_spec": llm_spec,
                    "n": s.n,
                    "mean": s.mean,
                    "best": s.best,
                    "worst": s.worst,
                }
                for (case, agent, llm_spec), s in sorted(
                    self.instances.items(), key=lambda item: (*item[0][:2], str(item[0][2]))
                )
            ]
            if repeated
            else [],
        }
