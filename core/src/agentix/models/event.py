"""What happens while trials run, for whoever wants to watch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentix.models.trial import Trial

EventKind = Literal["trial_started", "phase_started", "attempt_failed", "note", "trial_finished"]


@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that happened in one trial."""

    kind: EventKind
    trial_id: str
    instance_id: str
    attempt: int = 1
    phase: str | None = None
    message: str | None = None

    @classmethod
    def of(
        cls,
        trial: Trial,
        kind: EventKind,
        *,
        attempt: int = 1,
        phase: str | None = None,
        message: str | None = None,
    ) -> Event:
        """One thing that happened in this trial."""
        return cls(
            kind=kind,
            trial_id=trial.trial_id,
            instance_id=trial.instance_id,
            attempt=attempt,
            phase=phase,
            message=message,
        )
