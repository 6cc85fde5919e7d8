"""Runs one trial: attempts until one ends with something that is not worth another."""

from __future__ import annotations

import dataclasses
import time
from functools import partial
from pathlib import Path

from anyio.abc import TaskGroup

from agentix.errors import TrialError
from agentix.models import Event, EventKind, Rollout, Trial
from agentix.runner.ahead import Ahead, own_copy
from agentix.runner.boundary import boundary, described, failure_of
from agentix.runner.drive import drive
from agentix.runner.flow import AttemptFlow, Kept
from agentix.runner.outcome import keep_agent_error, one_line, rollout_of, write_failure
from agentix.runner.phases import Phases
from agentix.runner.setting import Setting


async def run_trial(setting: Setting, trial: Trial, tasks: TaskGroup, ahead: Ahead) -> Rollout:
    """The rollout of a trial, whatever happens; only cancellation is raised.

    Args:
        setting: What the trials of the run share.
        trial: What to run.
        tasks: Where its sandboxes are held. Cancelling the trial means cancelling this group.
        ahead: Makes sandboxes before they are needed.
    """
    started = time.perf_counter()
    notes: list[str] = []
    unreleased: list[str] = []
    _emit(setting, trial, "trial_started")
    if setting.hooks is not None:
        notes += setting.hooks.call("agentix_trial_started", trial=trial)
    attempt = 1
    kept: Kept | None = None
    while True:
        rollout, phase, kept = await _attempt(setting, trial, attempt, tasks, ahead, kept)
        unreleased += rollout.unreleased
        failure = rollout.failure
        if failure is None or failure.code not in setting.retry_on or attempt == setting.max_attempts:
            break
        _emit(setting, trial, "attempt_failed", attempt=attempt, phase=phase, message=one_line(failure))
        again = "" if kept is None else "; the next one only scores again what the agent had done"
        notes += [*rollout.notes, f"attempt {attempt} failed: {one_line(failure)}{again}"]
        attempt += 1
    rollout = dataclasses.replace(
        rollout,
        attempts=attempt,
        notes=(*notes, *rollout.notes),
        unreleased=tuple(unreleased),
        duration_s=time.perf_counter() - started,
    )
    _emit(setting, trial, "trial_finished", attempt=attempt, message=rollout.error)
    more = setting.feed.troubles()
    if setting.hooks is not None:
        more += setting.hooks.call("agentix_trial_finished", trial=trial, rollout=rollout)
    return dataclasses.replace(rollout, notes=(*rollout.notes, *more)) if more else rollout


async def _attempt(
    setting: Setting, trial: Trial, attempt: int, tasks: TaskGroup, ahead: Ahead, kept: Kept | None
) -> tuple[Rollout, str | None, Kept | None]:
    """The rollout of one attempt, the phase in which it failed, if it did in one, and what the next may begin with."""
    try:
        with boundary("host"):
            return await _attempted(setting, trial, attempt, tasks, ahead, kept)
    except TrialError as error:
        failure = failure_of(error)
        failed = Rollout(
            trial.instance_id, error=one_line(failure), trial_id=trial.trial_id, index=trial.index, failure=failure
        )
        return failed, None, None


async def _attempted(
    setting: Setting, trial: Trial, attempt: int, tasks: TaskGroup, ahead: Ahead, kept: Kept | None
) -> tuple[Rollout, str | None, Kept | None]:
    log_dir = _log_dir(setting, trial, attempt)
    instance = own_copy(trial)
    with boundary("dataset", plugin=setting.roles.dataset):
        task_limits = setting.roles.limits(instance)
    phases = Phases(task=task_limits, run=setting.limits, rules=setting.timeouts)
    noted = None
    if setting.feed.watched:
        phases.started = partial(_emit_phase, setting, trial, attempt)
        noted = partial(_emit_note, setting, trial, attempt)
    flow = AttemptFlow(
        roles=setting.roles,
        trial=trial,
        instance=instance,
        phases=phases,
        tasks=tasks,
        attempt=attempt,
        log_dir=log_dir,
        noted=noted,
        told=setting.told,
        bundle=setting.bundle,
        ahead=ahead,
        kept=kept,
    )
    score, failed, phase = None, None, None
    try:
        with boundary("host"):
            score = await drive(setting.roles, flow)
    except TrialError as error:
        failed, phase = error, phases.latest
    await flow.close_all()
    rollout = rollout_of(flow, score, failed, phases=phases.seconds, version=setting.roles.agent_version)
    return _written(flow, rollout), phase, flow.kept


def _written(flow: AttemptFlow, rollout: Rollout) -> Rollout:
    """Write what explains the attempt; that it cannot be written changes nothing of the result."""
    if flow.log_dir is None:
        return rollout
    try:
        keep_agent_error(flow)
        if rollout.failure is not None:
            write_failure(rollout.failure, flow.log_dir)
    except OSError as exc:
        return dataclasses.replace(rollout, notes=(*rollout.notes, f"{flow.log_dir.name}: {described(exc)}"))
    return rollout


def _log_dir(setting: Setting, trial: Trial, attempt: int) -> Path | None:
    """A new directory for the attempt; what an interrupted run left keeps its own number."""
    if setting.trial_dir is None:
        return None
    parent = setting.trial_dir(trial) / "attempts"
    parent.mkdir(parents=True, exist_ok=True)
    number = attempt
    while True:
        try:
            (parent / str(number)).mkdir()
        except FileExistsError:
            number += 1
        else:
            return parent / str(number)


def _emit_phase(setting: Setting, trial: Trial, attempt: int, phase: str) -> None:
    _emit(setting, trial, "phase_started", attempt=attempt, phase=phase)


def _emit_note(setting: Setting, trial: Trial, attempt: int, message: str) -> None:
    _emit(setting, trial, "note", attempt=attempt, message=message)


def _emit(
    setting: Setting,
    trial: Trial,
    kind: EventKind,
    *,
    attempt: int = 1,
    phase: str | None = None,
    message: str | None = None,
) -> None:
    if setting.feed.watched:
        setting.feed.emit(Event.of(trial, kind, attempt=attempt, phase=phase, message=message))
