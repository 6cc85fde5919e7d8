"""A configured command as the executor: environment in, files out."""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from agentix.api import (
    EnvFailed,
    Event,
    Failure,
    FailureCode,
    Rollout,
    StepContext,
    StepOutcome,
    TrajectoryError,
    TrialWork,
    Usage,
    UsageError,
    check_trajectory,
    read_trajectory,
    write_failure,
)
from agentix.plugins.experiments.steps.command_step import environment
from agentix.plugins.experiments.steps.executors.answer import Answer, read_answer
from agentix.plugins.experiments.steps.executors.environment import trial_environment
from agentix.plugins.experiments.steps.running import exponential

if TYPE_CHECKING:
    from agentix.plugins.experiments.commands import Command, CommandRunner

OUT = "out"
LOG = "executor.log"
_TRAJECTORIES = ("trajectory.json", "traj.json", "agent/trajectory.json", "agent/traj.json")
_LONGEST_TRAJECTORY = 256 << 20
_MOST = 1 << 53
"""More of anything is no count; every reader of JSON has whole numbers up to that."""
_SAID = 500
_ENDINGS: Mapping[FailureCode, Any] = {
    FailureCode.AGENT_TIMEOUT: "timeout",
    FailureCode.AGENT_FAILED: "agent_error",
}


async def run_command_executor(
    command: Command,
    ctx: StepContext,
    inputs: Mapping[str, Any],
    *,
    runner: CommandRunner,
    backoff: Callable[[int], float] = exponential,
) -> StepOutcome:
    """Run one trial: attempts until one ends with something that is not worth another.

    `$OUT_DIR` is a new directory in each attempt. What an attempt that is not the last one left is in
    `attempts/<n>/out` of the trial's directory, what the last one left in `out`.

    Args:
        command: What runs a trial.
        ctx: With the trial in `work`.
        inputs: Of the step; they are variables too.
        runner: Runs commands.
        backoff: Seconds to wait before the n-th further attempt.
    """
    work = ctx.work
    if work is None:
        raise UsageError("this step runs a trial: it is the first of per_trial")
    started = time.perf_counter()
    try:
        key = None if work.key is None else await work.key()
    except EnvFailed as error:
        missing = Failure(code=FailureCode.ENV_FAILED, message=str(error), detail=error.detail)
        return StepOutcome(rollout=_rollout(work, Answer(failure=missing)))
    notes: list[str] = []
    attempt = 1
    while True:
        place = _attempt_dir(work.directory, attempt)
        out = _empty(work.directory / OUT)
        scratch = _empty(place / "work")
        work.on_event(Event.of(work.trial, "phase_started", attempt=attempt, phase="executor"))
        answer = await _attempt(command, ctx, inputs, runner=runner, key=key, out=out, scratch=scratch, place=place)
        failure = answer.failure
        if failure is not None:
            write_failure(failure, place)
        if failure is None or failure.code not in work.retry_on or attempt == work.max_attempts:
            break
        said = f"{failure.code}: {failure.message}"
        work.on_event(Event.of(work.trial, "attempt_failed", attempt=attempt, message=said))
        notes += [*answer.notes, f"attempt {attempt} failed: {said}"]
        with suppress(FileNotFoundError):
            out.rename(place / OUT)
        await anyio.sleep(backoff(attempt))
        attempt += 1
    rollout = dataclasses.replace(
        _rollout(work, answer),
        attempts=attempt,
        duration_s=time.perf_counter() - started,
        phases={"executor": time.perf_counter() - started},
        notes=(*notes, *answer.notes),
    )
    return StepOutcome(rollout=await anyio.to_thread.run_sync(_with_evidence, rollout, work, out))


async def _attempt(
    command: Command,
    ctx: StepContext,
    inputs: Mapping[str, Any],
    *,
    runner: CommandRunner,
    key: str | None,
    out: Path,
    scratch: Path,
    place: Path,
) -> Answer:
    assert ctx.work is not None
    variables = {**environment(ctx, inputs), **trial_environment(ctx.work, out_dir=out, work_dir=scratch)}
    result = await runner.run(
        command,
        variables=variables,
        secrets={"LLM_API_KEY": key} if key else {},
        log=place / LOG,
    )
    return read_answer(
        out,
        exit_code=result.exit_code,
        signal=result.signal,
        timed_out=result.timed_out,
        said=_tail(result.stderr, result.stdout),
    )


def _rollout(work: TrialWork, answer: Answer) -> Rollout:
    trial, failure = work.trial, answer.failure
    score = None
    if answer.reward is not None:
        score = {"reward": answer.reward, "metrics": dict(answer.metrics)}
    return Rollout(
        trial.instance_id,
        score=score,
        error=None if failure is None else f"{failure.code}: {failure.message}",
        trial_id=trial.trial_id,
        index=trial.index,
        failure=failure,
        ended=None if failure is None else _ENDINGS.get(failure.code),
    )


def _with_evidence(rollout: Rollout, work: TrialWork, out: Path) -> Rollout:
    """Add trajectory and usage where the executor left them; what cannot be read of them is a note."""
    notes: list[str] = []
    usage = _usage(out / "usage.json", notes)
    for name in _TRAJECTORIES:
        path = out / name
        if not _is_inside(path, out, longest=_LONGEST_TRAJECTORY):
            continue
        try:
            found = read_trajectory(path)
            rollout = dataclasses.replace(rollout, trajectory=found)
            usage = usage or check_trajectory(found).usage
        except (TrajectoryError, OSError, ValueError, RecursionError) as error:
            notes.append(f"{name} is no trajectory in the ATIF format: {error}".splitlines()[0])
        else:
            break
    return dataclasses.replace(rollout, usage=usage, notes=(*rollout.notes, *notes))


def _usage(path: Path, notes: list[str]) -> Usage | None:
    if not _is_inside(path, path.parent, longest=1 << 20):
        return None
    try:
        data = json.loads(path.read_text("utf-8"))
        known = {name: data[name] for name in Usage.__dataclass_fields__ if data.get(name) is not None}
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        notes.append(f"usage.json cannot be read: {error}")
        return None
    wrong = [name for name, value in known.items() if not _counts(value, whole=name != "cost_usd")]
    if wrong:
        notes.append(f"usage.json is not used: {', '.join(wrong)}: no number from 0, or no whole one")
        return None
    return Usage(**known)


def _counts(value: Any, *, whole: bool) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= _MOST and (not whole or isinstance(value, int))


def _is_inside(path: Path, directory: Path, *, longest: int) -> bool:
    """Whether it is a file of the directory itself: no link leads there, not in a directory between either."""
    try:
        return path.resolve() == directory.parent.resolve() / directory.name / path.relative_to(directory) and (
            path.is_file() and path.stat().st_size <= longest
        )
    except (OSError, RuntimeError):
        return False


def _attempt_dir(trial_dir: Path, attempt: int) -> Path:
    place = trial_dir / "attempts" / str(attempt)
    place.mkdir(parents=True, exist_ok=True)
    return place


def _empty(directory: Path) -> Path:
    """The directory, new and empty; what an interrupted session left there was set aside before."""
    if directory.is_symlink() or directory.is_file():
        directory.unlink()
    with suppress(FileNotFoundError):
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    return directory


def _tail(*outputs: str) -> str:
    return next((" ".join(text.split())[-_SAID:] for text in outputs if text.strip()), "")
