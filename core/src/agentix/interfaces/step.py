"""The contract of a step: one action of a pipeline, on a case, a trial or a whole experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel


class Scope(StrEnum):
    """The unit of work that a step acts on."""

    PER_CASE = "per_case"
    PER_TRIAL = "per_trial"
    PER_EXPERIMENT = "per_experiment"


@dataclass(frozen=True, kw_only=True)
class StepContext:
    """Where and for what a step runs."""

    scope: Scope
    run_id: str
    run_dir: Path
    work_dir: Path
    """The only directory that the step may write to."""
    subject: Mapping[str, Any] = field(default_factory=dict)
    """The case, the trial's record or the run's manifest, as plain data."""


@dataclass(frozen=True, kw_only=True)
class StepOutcome:
    """What a step concluded."""

    ok: bool = True
    message: str = ""
    drop: bool = False
    """Keep the measurement and publish nothing of it."""
    outputs: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Step(Protocol):
    """One action. Its inputs are checked against `Inputs` before anything runs."""

    scopes: frozenset[Scope]
    Inputs: type[BaseModel]
    """With `extra="forbid"`, so that an unknown input is an error."""

    async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
        """Do it; safe to run again after an interruption.

        Raises:
            Exception: Anything raised is STEP_FAILED, attributed to the step.
        """
        ...
