"""What is said of a plan before it runs: that too much would go one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentix.plugins.experiments.steps.resolved import ResolvedStep
from agentix.plugins.experiments.steps.transport_step import TransportStep


def foreseen(steps: Iterable[ResolvedStep], trials: int) -> Iterator[str]:
    """What transports say of shipping so many trials.

    Args:
        steps: Those of each trial.
        trials: How many trials there are.
    """
    for step in steps:
        if step.ships and isinstance(step.step, TransportStep):
            for line in step.step.foresee(step.example_inputs(), trials=trials):
                yield f"{step.label}: {line}"
