"""What steps are given: a trial with its record, or the whole run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentix.api import Case, Record, Scope, Secrets, StepContext
from agentix.plugins.experiments.steps import ResolvedStep

STEPS_DIR = "steps"


def trial_context(
    step: ResolvedStep,
    record: Record,
    case: Case | None,
    *,
    run_id: str,
    run_dir: Path,
    trial_dir: Path,
    experiment: str,
    secrets: Secrets,
    say: Callable[[str], None],
) -> StepContext:
    """A trial that has ended, for one step after it."""
    work_dir = trial_dir / STEPS_DIR / step.key
    work_dir.mkdir(parents=True, exist_ok=True)
    return StepContext(
        scope=Scope.PER_TRIAL,
        run_id=run_id,
        run_dir=run_dir.absolute(),
        work_dir=work_dir.absolute(),
        experiment=experiment,
        subject=record.to_data(),
        case=case,
        trial_dir=trial_dir.absolute(),
        secrets=secrets,
        say=say,
    )


def run_context(
    step: ResolvedStep,
    subject: dict[str, Any],
    *,
    run_id: str,
    run_dir: Path,
    experiment: str,
    incomplete: str | None,
    secrets: Secrets,
    say: Callable[[str], None],
) -> StepContext:
    """The whole run, for one step of it. A report may write beside the results."""
    work_dir = run_dir if step.reports else run_dir / STEPS_DIR / step.key
    work_dir.mkdir(parents=True, exist_ok=True)
    return StepContext(
        scope=Scope.PER_EXPERIMENT,
        run_id=run_id,
        run_dir=run_dir.absolute(),
        work_dir=work_dir.absolute(),
        experiment=experiment,
        subject=subject,
        incomplete=incomplete,
        secrets=secrets,
        say=say,
    )
