"""What a step after a trial leaves in the trial's record."""

from __future__ import annotations

from agentix.api import FailureCode, Record
from agentix.cli.api import StepFailure
from agentix.plugins.experiments.steps import StepResult


def with_step(record: Record, result: StepResult) -> Record:
    """The record after a step; whatever the step says, the reward stays."""
    if result.reaction == "fail":
        failure = result.failure
        message = result.message if failure is None else failure.message.removeprefix(f"{result.step}: ")
        return with_failure(record, result.step, message, code=None if failure is None else failure.code)
    if result.reaction == "go_on":
        return record
    words = {"warn": "warning", "skip": "the steps after it are left out", "drop": "dropped"}
    note = f"step {result.step}: {words[result.reaction]}"
    note += f": {result.message}" if result.message else ""
    dropped = record.dropped or result.dropped
    return record.model_copy(update={"notes": (*record.notes, note[:2000]), "dropped": dropped})


def with_failure(record: Record, step: str, message: str, *, code: str | None = None) -> Record:
    """The record with a step that failed."""
    failure = StepFailure(step=step, code=FailureCode(code or "STEP_FAILED"), message=message[:2000])
    return record.model_copy(update={"step_failures": (*record.step_failures, failure)})
