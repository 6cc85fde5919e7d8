"""Where the reports of a run are, as far as they may be published."""

from __future__ import annotations

from pathlib import Path

from agentix.api import Scope, StepContext
from agentix.plugins.experiments.steps import ResolvedStep
from agentix.plugins.experiments.steps.templates import fill, variables

_UNNAMED = frozenset(f"report.{suffix}" for suffix in ("csv", "html", "json", "md"))
"""What a report is called of which the file does not say."""


def report_places(step: ResolvedStep, *, run_dir: Path, experiment: str) -> frozenset[str]:
    """The files at the top of a run's directory that a step may write its report to.

    Args:
        step: It.
        run_dir: The run's directory.
        experiment: What it is a run of.
    """
    dest = step.given.get("dest")
    if not isinstance(dest, str):
        return _UNNAMED
    ctx = StepContext(
        scope=Scope.PER_EXPERIMENT, run_id=run_dir.name, run_dir=run_dir, work_dir=run_dir, experiment=experiment
    )
    name = fill(dest, variables(ctx))
    return frozenset() if not name or "/" in name else frozenset({name})
