"""What has to come before what, where something of a trial is published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agentix.plugins.experiments.steps.inputs import StepProblem

if TYPE_CHECKING:
    from agentix.plugins.experiments.steps.resolved import ResolvedStep


def order_problems(per_trial: Mapping[str, ResolvedStep]) -> Iterator[StepProblem]:
    """What is wrong with the order of the steps after a trial.

    Args:
        per_trial: The steps in their order, by where they stand.
    """
    redacting: str | None = None
    publishing: ResolvedStep | None = None
    shipping: ResolvedStep | None = None
    for where, step in per_trial.items():
        if step.redacts and redacting is not None:
            yield StepProblem(path=f"{where}.uses", message=f"a trial is redacted once, and {redacting} does that")
        elif step.redacts and publishing is not None:
            message = f"has to come before {publishing.label}, which publishes what it leaves"
            yield StepProblem(path=f"{where}.uses", message=message)
        if step.spec.on_violation == "drop" and shipping is not None:
            message = f"has to come before {shipping.label}: what was sent cannot be taken back"
            yield StepProblem(path=f"{where}.on_violation", message=message)
        redacting = where if step.redacts and redacting is None else redacting
        publishing = step if step.publishes and publishing is None else publishing
        shipping = step if step.ships and shipping is None else shipping


def where_to_redact(per_trial: Sequence[ResolvedStep]) -> tuple[int, str]:
    """Where redaction goes in a file that publishes and names no step for it, and what to say of that."""
    said = "the file publishes and names no step that redacts, so redact runs with its defaults"
    for number, step in enumerate(per_trial):
        if step.publishes:
            return number, f"pipeline.per_trial: {said}, before {step.label}"
    return len(per_trial), f"pipeline.per_trial: {said}, as the last step of each trial"
