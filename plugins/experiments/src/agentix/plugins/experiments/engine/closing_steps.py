"""Which steps of the whole run there are, what is left of them, and what of their reports may be published."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentix.api import Hooks, Scope
from agentix.cli.api import ExperimentManifest
from agentix.plugins.experiments.documents import StepSpec
from agentix.plugins.experiments.engine.parts import Parts
from agentix.plugins.experiments.engine.publication import Publication
from agentix.plugins.experiments.engine.report_places import report_places
from agentix.plugins.experiments.steps import ResolvedStep, resolve_step
from agentix.plugins.experiments.steps.finding import standard

REPORT = "report"


def closing_steps(parts: Parts) -> tuple[ResolvedStep, ...]:
    """The steps of the file, with a report behind them where it declares none."""
    steps = parts.pipeline.per_experiment
    if any(step.reports for step in steps):
        return steps
    report = StepSpec(uses=standard(REPORT), name=REPORT)
    return (*steps, resolve_step(report, Scope.PER_EXPERIMENT, parts.commands))


def left_to_do(steps: Sequence[ResolvedStep], manifest: ExperimentManifest | None) -> tuple[ResolvedStep, ...]:
    """The steps that have not run since the last result, or have failed, or are other ones now."""
    if manifest is None:
        return tuple(steps)
    done = {(end.step, end.fingerprint) for end in manifest.ended if end.ok or end.warned}
    return tuple(step for step in steps if (step.label, step.fingerprint()) not in done)


def open_publication(parts: Parts, path: Path, *, hooks: Hooks) -> Publication:
    """What of a run may leave this machine; the reports at the top of its directory are a part of that.

    Args:
        parts: What the run is made of.
        path: Its directory.
        hooks: Asked what has to be taken out besides.

    Raises:
        PluginBroken: A plugin cannot say that.
    """
    experiment = parts.submission.experiment.name
    steps = [step for step in closing_steps(parts) if step.reports]
    places = [report_places(step, run_dir=path, experiment=experiment) for step in steps]
    return Publication(
        parts,
        run_dir=path,
        reports=frozenset().union(*places),
        patterns={} if parts.pipeline.redact is None else hooks.redaction_patterns(),
    )
