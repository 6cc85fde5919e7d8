"""How far a run is: what displays and progress.json are made from."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentix.models import Event
from agentix.records import Record, utc_now
from agentix.stats import Summary

_LISTED = 20


@dataclass
class Running:
    """A trial that is being run."""

    trial_id: str
    started: float
    phase: str = "waiting"
    phase_since: float = 0.0
    attempt: int = 1


@dataclass
class Board:
    """The state of a run; only the event loop's thread changes it."""

    run_id: str
    summary: Summary
    """Of all records so far, earlier sessions included."""
    to_run: int
    """How many trials this session runs."""
    done: int = 0
    """How many of them have a result."""
    running: dict[str, Running] = field(default_factory=dict)
    state: str = "running"
    started: float = field(default_factory=time.monotonic)

    def on_event(self, event: Event) -> None:
        """Follow one trial."""
        now = time.monotonic()
        if event.kind == "trial_started":
            self.running[event.trial_id] = Running(event.trial_id, now, phase_since=now)
        elif event.kind == "trial_finished":
            self.running.pop(event.trial_id, None)
        elif event.kind == "phase_started" and (trial := self.running.get(event.trial_id)):
            trial.phase, trial.phase_since, trial.attempt = event.phase or "", now, event.attempt

    def on_record(self, record: Record) -> None:
        """Count a result."""
        self.running.pop(record.trial_id, None)
        self.done += 1
        self.summary.add(record)

    @property
    def elapsed(self) -> float:
        """Seconds since this session began."""
        return time.monotonic() - self.started

    def slowest(self, count: int = 1) -> list[Running]:
        """The trials that have been running for the longest."""
        return sorted(self.running.values(), key=lambda trial: trial.started)[:count]

    def phases(self) -> dict[str, int]:
        """How many trials are in each phase."""
        found: dict[str, int] = {}
        for trial in self.running.values():
            found[trial.phase] = found.get(trial.phase, 0) + 1
        return found

    def to_data(self) -> Mapping[str, object]:
        """The content of progress.json."""
        now = time.monotonic()
        return {
            "run_id": self.run_id,
            "state": self.state,
            "at": utc_now(),
            "pid": os.getpid(),
            "to_run": self.to_run,
            "done": self.done,
            "elapsed_s": round(self.elapsed, 3),
            "running": [
                {
                    "trial_id": trial.trial_id,
                    "phase": trial.phase,
                    "attempt": trial.attempt,
                    "seconds": round(now - trial.started, 3),
                    "phase_seconds": round(now - trial.phase_since, 3),
                }
                for trial in self.slowest(_LISTED)
            ],
            "running_count": len(self.running),
            "summary": {key: value for key, value in self.summary.to_data().items() if key != "instances"},
        }
