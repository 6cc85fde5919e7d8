"""The numbers of a run: one row for every agent with every model that it ran with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agentix.records import ExperimentManifest, Record, Run
from agentix.stats.estimators import pass_at_k, pass_hat_k, quantile
from agentix.stats.intervals import Interval, mean_interval
from agentix.stats.summary import Summary, bucket

RowKey = tuple[str, str | None]
"""Agent and model spec, as records call them."""

_KS = (1, 2, 3, 5, 8, 10, 16, 20, 25, 32, 50, 64, 100)


@dataclass
class CaseTrials:
    """The trials of one case in a row that count in the denominator."""

    rewards: list[float] = field(default_factory=list)
    """An agent failure is 0."""
    resolved: int = 0

    @property
    def mean(self) -> float:
        """Mean reward."""
        return sum(self.rewards) / len(self.rewards)


@dataclass(frozen=True, kw_only=True)
class PassK:
    """An estimate over all cases that have as many trials."""

    k: int
    cases: int
    """How many cases have at least k trials in the denominator, and are averaged over."""
    pass_at_k: float
    """That at least one of k passes."""
    pass_hat_k: float
    """That all of k pass."""


@dataclass
class AgentNumbers:
    """One row. What it counts is in `summary`."""

    agent: str
    llm_spec: str | None = None
    summary: Summary = field(default_factory=Summary)
    cases: dict[str, CaseTrials] = field(default_factory=dict)
    dropped: int = 0
    """Trials of which nothing is published."""
    shipped: int = 0
    """Measured trials that may be published."""

    @property
    def name(self) -> str:
        """What the row is called."""
        return self.agent if self.llm_spec is None else f"{self.agent} with {self.llm_spec}"

    def add(self, record: Record) -> None:
        """Count one more record."""
        self.summary.add(record)
        self.dropped += record.dropped
        self.shipped += record.measured and not record.dropped
        if bucket(record) != "infra_failure":
            trials = self.cases.setdefault(record.case, CaseTrials())
            trials.rewards.append(record.reward or 0.0)
            trials.resolved += record.resolved

    @cached_property
    def rewards(self) -> tuple[float, ...]:
        """Of the denominator, in ascending order."""
        return tuple(sorted(reward for trials in self.cases.values() for reward in trials.rewards))

    @cached_property
    def interval(self) -> Interval | None:
        """Of the mean reward."""
        return mean_interval([trials.rewards for trials in self.cases.values()])

    def quantile(self, q: float) -> float | None:
        """Of the rewards in the denominator."""
        return quantile(self.rewards, q)

    def pass_at(self, reward: float) -> int:
        """How many trials have at least that reward; it is a share of the denominator."""
        return sum(value >= reward for value in self.rewards)

    @cached_property
    def pass_k(self) -> tuple[PassK, ...]:
        """pass@k and pass^k where some case has several trials; a pass is a resolved trial."""
        most = max((len(trials.rewards) for trials in self.cases.values()), default=0)
        if most < 2:
            return ()
        found = []
        for k in sorted({k for k in _KS if k <= most} | {most}):
            able = [(len(t.rewards), t.resolved) for t in self.cases.values() if len(t.rewards) >= k]
            found.append(
                PassK(
                    k=k,
                    cases=len(able),
                    pass_at_k=sum(pass_at_k(n, c, k) for n, c in able) / len(able),
                    pass_hat_k=sum(pass_hat_k(n, c, k) for n, c in able) / len(able),
                )
            )
        return tuple(found)

    def to_data(self, *, pass_at: float | None = None) -> dict[str, Any]:
        """Everything as plain data; `null` is unknown."""
        summary = self.summary
        return {
            "agent": self.agent,
            "llm_spec": self.llm_spec,
            **{key: value for key, value in summary.to_data().items() if key != "instances"},
            "dropped": self.dropped,
            "interval": None
            if self.interval is None
            else {"low": self.interval.low, "high": self.interval.high, "method": self.interval.method},
            "median": self.quantile(0.5),
            "p25": self.quantile(0.25),
            "p75": self.quantile(0.75),
            "pass_at": None
            if pass_at is None
            else {"reward": pass_at, "passed": self.pass_at(pass_at), "of": summary.denominator},
            "pass_k": [
                {"k": p.k, "cases": p.cases, "pass_at_k": p.pass_at_k, "pass_hat_k": p.pass_hat_k} for p in self.pass_k
            ],
            "cases": {
                case: {
                    "n": len(t.rewards),
                    "resolved": t.resolved,
                    "mean": t.mean,
                    "best": max(t.rewards),
                    "worst": min(t.rewards),
                }
                for case, t in sorted(self.cases.items())
            },
        }


@dataclass
class RunNumbers:
    """All rows of a run, in the order in which they were planned."""

    rows: dict[RowKey, AgentNumbers] = field(default_factory=dict)
    total: Summary = field(default_factory=Summary)

    @classmethod
    def of(
        cls,
        records: Iterable[Record],
        *,
        planned: Mapping[RowKey, int] | None = None,
        planned_total: int | None = None,
    ) -> RunNumbers:
        """The numbers of records, which are read once.

        Args:
            records: Any number of them.
            planned: How many trials each row should have.
            planned_total: How many there should be in all; by default the sum of those.
        """
        planned = planned or {}
        numbers = cls(
            total=Summary(planned=planned_total if planned_total is not None else sum(planned.values()) or None)
        )
        for (agent, llm_spec), count in planned.items():
            numbers._row(agent, llm_spec, count)
        for record in records:
            numbers.total.add(record)
            numbers._row(record.agent, record.llm_spec, None).add(record)
        return numbers

    @classmethod
    def of_run(cls, run: Run, *, records: Iterable[Record] | None = None) -> RunNumbers:
        """The numbers of a run on disk, finished or not.

        Args:
            run: The run.
            records: Its records, for who looks at each of them too.
        """
        manifest = run.manifest
        records = run if records is None else records
        if isinstance(manifest, ExperimentManifest):
            cases = sum(case.label not in manifest.rejected for case in manifest.cases)
            planned = {
                (row.agent, row.llm_spec): row.trials * cases if row.planned is None else row.planned
                for row in manifest.matrix
            }
            return cls.of(records, planned=planned, planned_total=manifest.planned)
        numbers = cls.of(records, planned_total=None if manifest is None else manifest.planned)
        if manifest is not None and len(numbers.rows) == 1:
            (row,) = numbers.rows.values()
            row.summary.planned = manifest.planned
        return numbers

    def _row(self, agent: str, llm_spec: str | None, planned: int | None) -> AgentNumbers:
        key = (agent, llm_spec)
        if key not in self.rows:
            self.rows[key] = AgentNumbers(agent, llm_spec, summary=Summary(planned=planned))
        return self.rows[key]

    def to_data(self, *, pass_at: float | None = None) -> dict[str, Any]:
        """Everything as plain data."""
        total = {key: value for key, value in self.total.to_data().items() if key != "instances"}
        return {"total": total, "rows": [row.to_data(pass_at=pass_at) for row in self.rows.values()]}
