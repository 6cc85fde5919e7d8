"""Trials that were to be shipped when they ended, and were not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agentix.api import FailureCode
from agentix.cli.api import StepFailure
from agentix.plugins.experiments.steps import ResolvedStep


def unshipped(steps: Sequence[ResolvedStep], failed: Mapping[str, Sequence[StepFailure]]) -> Iterator[str]:
    """The trials of which a shipment failed, or could not be made because redaction failed.

    Args:
        steps: The steps after a trial.
        failed: By trial, the steps that failed.
    """
    shipping = {step.label for step in steps if step.ships}
    for name, failures in failed.items() if shipping else ():
        if any(one.step in shipping or one.code is FailureCode.REDACT_FAILED for one in failures):
            yield name
