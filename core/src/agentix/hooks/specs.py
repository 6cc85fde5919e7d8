"""What the runner tells everyone, and what it asks.

A hook is a plain function that is called in the process and the thread of the run, so it has to be quick. Every
plugin that implements a hook is called, the one that was registered last first.

All but one look on: they return nothing and change nothing, and where one raises, that is reported under its plugin's
name and the run goes on. `agentix_redaction_patterns` is asked: what it returns is used, and where it fails, that is an
error, as nothing may be published while it is unknown what has to be taken out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from agentix.models import Rollout, Trial

PROJECT = "agentix"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def agentix_run_started(run: Mapping[str, Any]) -> None:
    """Called once, after the run was planned and before its first trial.

    Args:
        run: The run's manifest. A resumed run is started again under its old id.
    """


@hookspec
def agentix_trial_started(trial: Trial) -> None:
    """Called when a trial has its slot, before a sandbox exists; once, whatever its number of attempts."""


@hookspec
def agentix_trial_finished(trial: Trial, rollout: Rollout) -> None:
    """Called when a trial has its result, good or bad, before that is on disk.

    A cancelled trial has no result, so this is not called for it.
    """


@hookspec
def agentix_record_written(record: Mapping[str, Any]) -> None:
    """Called when the line of a trial is safely in `results.jsonl`.

    Args:
        record: The line as plain data.
    """


@hookspec
def agentix_run_finished(summary: Mapping[str, Any]) -> None:
    """Called once, after the last trial, also where the run stopped early.

    Args:
        summary: Counts, rates and failure codes of the run.
    """


@hookspec
def agentix_case_finished(case: Mapping[str, Any], accepted: bool, message: str) -> None:
    """Called when the checks of an experiment's case have come to a verdict, cached ones too.

    Args:
        case: Its `name`, `label` and `sha256`.
        accepted: Whether its trials may run.
        message: The verdict in words.
    """


@hookspec
def agentix_step_finished(scope: str, step: str, unit: str, verdict: str, message: str) -> None:
    """Called when a step of an experiment has ended on one unit.

    Args:
        scope: `per_case`, `per_trial` or `per_experiment`.
        step: What the file calls it.
        unit: The case's label, the trial's id or the run's.
        verdict: `passed`, `rejected` or `failed`.
        message: What it said.
    """


@hookspec
def agentix_redaction_patterns() -> Mapping[str, str]:
    """Called before anything is published, to learn what else has to be taken out of it.

    Returns:
        Regular expressions in the syntax of Python's `re`, with `^` and `$` at line breaks, each by the kind that its
        matches are counted as: lower-case letters, digits and `_`, such as `internal_host`. Of an expression that has
        a group named `secret`, only that is taken out. One that matches an empty text, or that takes long on some
        texts, is an error; so is a kind that two plugins give.
    """
    raise NotImplementedError
