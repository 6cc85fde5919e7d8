"""What has to come before what where something is published, and that it gets a place of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
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


def place_problems(per_experiment: Mapping[str, ResolvedStep]) -> Iterator[StepProblem]:
    """Steps of the whole run that publish to one place, or one inside of what another has, as far as inputs say where.

    Args:
        per_experiment: The steps in their order, by where they stand.
    """
    before: list[tuple[str, ResolvedStep, Sequence[frozenset[str]]]] = []
    for where, step in per_experiment.items():
        places = step.places()
        for other_where, other, theirs in before:
            # What they have in common for every example, they have whatever templates stand for.
            found = [_in_common(mine, their) for mine, their in zip(places, theirs, strict=False)]
            if found and all(found):
                place = found[0] if len({*found}) == 1 else "something"
                message = f"publishes {place} where {other.label} does ({other_where}); give one of them another place"
                yield StepProblem(path=f"{where}.uses", message=message)
                break
        before.append((where, step, places))


def _in_common(some: Iterable[str], others: Iterable[str]) -> str | None:
    """A place that stands in the way of another one."""
    for one in sorted(some):
        parts = PurePosixPath(one).parts
        for other in (PurePosixPath(place).parts for place in others):
            common = min(len(parts), len(other))
            if parts[:common] == other[:common]:
                return one
    return None


def where_to_redact(per_trial: Sequence[ResolvedStep]) -> tuple[int, str]:
    """Where redaction goes in a file that publishes and names no step for it, and what to say of that."""
    said = "the file publishes and names no step that redacts, so redact runs with its defaults"
    for number, step in enumerate(per_trial):
        if step.publishes:
            return number, f"pipeline.per_trial: {said}, before {step.label}"
    return len(per_trial), f"pipeline.per_trial: {said}, as the last step of each trial"
