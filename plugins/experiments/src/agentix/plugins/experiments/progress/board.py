"""How far a run is: what displays, progress.json and `agentix status` are made from."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentix.api import Record
from agentix.cli.api import StepFailure, Summary, utc_now

_LISTED = 50


@dataclass
class InFlight:
    """A trial that is being run, or whose steps are."""

    trial_id: str
    case: str
    step: str
    """The executor, or the step after it."""
    started: float
    since: float
    """When it came to that step."""
    phase: str = ""
    """What the executor is doing."""
    attempt: int = 1


@dataclass
class CaseCount:
    """One case's trials."""

    of: int = 0
    done: int = 0
    dropped: int = 0
    failed: int = 0
    """Without a reward for a reason that is not the agent's."""


@dataclass
class Board:
    """The state of a run; only the event loop's thread changes it."""

    run_id: str
    experiment: str
    summary: Summary = field(default_factory=Summary)
    """Of all records so far, earlier sessions included."""
    planned: int = 0
    """How many trials the run consists of."""
    cases: dict[str, CaseCount] = field(default_factory=dict)
    in_flight: dict[str, InFlight] = field(default_factory=dict)
    state: str = "resolving"
    """`resolving`, `gate`, `running`, `closing`, then `finished`, `stopped` or `interrupted`."""
    doing: str = ""
    """What the run does besides trials: the case that is checked, the step of the whole run."""
    dropped: int = 0
    recorded: set[str] = field(default_factory=set)
    """Trials that have a line."""
    failed_steps: dict[str, tuple[StepFailure, ...]] = field(default_factory=dict)
    """Steps that failed after trials which have a line, where there are any."""
    step_notes: int = 0
    """How many steps after trials did not pass and were let be."""
    unreleased: list[str] = field(default_factory=list)
    """Ids of sandboxes that may still exist."""
    started: float = field(default_factory=time.monotonic)

    @property
    def done(self) -> int:
        """Trials with a result."""
        return self.summary.n

    @property
    def cases_done(self) -> int:
        """Cases of which all trials have a result."""
        return sum(1 for case in self.cases.values() if case.of and case.done >= case.of)

    @property
    def elapsed(self) -> float:
        """Seconds since this session began."""
        return time.monotonic() - self.started

    def forget(self) -> None:
        """Count from the start again."""
        self.summary, self.cases, self.dropped, self.step_notes = Summary(), {}, 0, 0
        self.recorded, self.failed_steps, self.unreleased = set(), {}, []

    def begin(self, trial_id: str, case: str, step: str) -> None:
        """A trial is being run."""
        now = time.monotonic()
        self.in_flight[trial_id] = InFlight(trial_id, case, step, now, now)

    def move(self, trial_id: str, step: str) -> None:
        """It came to another step."""
        trial = self.in_flight.get(trial_id)
        if trial is not None:
            trial.step, trial.since, trial.phase = step, time.monotonic(), ""

    def phase(self, trial_id: str, phase: str, attempt: int) -> None:
        """Its executor does something else."""
        trial = self.in_flight.get(trial_id)
        if trial is not None:
            trial.phase, trial.attempt = phase, attempt

    def leave(self, trial_id: str) -> None:
        """It is in flight no more."""
        self.in_flight.pop(trial_id, None)

    def count(self, record: Record) -> None:
        """A trial has its line."""
        self.leave(record.trial_id)
        self.recorded.add(record.trial_id)
        if record.step_failures and not record.dropped:
            self.failed_steps[record.trial_id] = record.step_failures
        self.step_notes += len(record.step_notes)
        self.unreleased += record.unreleased
        self.summary.add(record)
        case = self.cases.setdefault(record.case, CaseCount())
        case.done += 1
        if record.dropped:
            case.dropped += 1
            self.dropped += 1
        code = record.failure_code
        if record.reward is None and not (code is not None and code.is_agents):
            case.failed += 1

    def steps(self) -> Counter[str]:
        """How many trials are in each step, in the order in which they came there."""
        return Counter(trial.step for trial in self.in_flight.values())

    def slowest(self, count: int = 1) -> list[InFlight]:
        """The trials that have been in their step for the longest."""
        return sorted(self.in_flight.values(), key=lambda trial: trial.since)[:count]

    def to_data(self) -> Mapping[str, Any]:
        """The content of progress.json."""
        now = time.monotonic()
        return {
            "schema_version": 1,
            "run_id": self.run_id,
            "experiment": self.experiment,
            "state": self.state,
            "doing": self.doing,
            "at": utc_now(),
            "pid": os.getpid(),
            "planned": self.planned,
            "done": self.done,
            "dropped": self.dropped,
            "elapsed_s": round(self.elapsed, 3),
            "cases": {
                name: {"of": case.of, "done": case.done, "dropped": case.dropped, "failed": case.failed}
                for name, case in self.cases.items()
            },
            "in_flight": [
                {
                    "trial_id": trial.trial_id,
                    "case": trial.case,
                    "step": trial.step,
                    "phase": trial.phase,
                    "attempt": trial.attempt,
                    "seconds": round(now - trial.since, 3),
                    "total_seconds": round(now - trial.started, 3),
                }
                for trial in self.slowest(_LISTED)
            ],
            "in_flight_count": len(self.in_flight),
            "mean_reward": self.summary.mean_reward,
            "cost_usd": self.summary.cost_usd.sum,
            "failures": {str(code): count for code, count in sorted(self.summary.by_code.items(), key=str)},
        }
