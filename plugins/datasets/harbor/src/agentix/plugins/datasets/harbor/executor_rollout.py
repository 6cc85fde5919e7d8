"""From what the Harbor CLI left of a trial to a rollout."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentix.api import Ended, Failure, FailureCode, Rollout, TrialWork
from agentix.plugins.datasets.harbor.executor_codes import boundary_of, code_of, detail_of
from agentix.plugins.datasets.harbor.executor_log import without
from agentix.plugins.datasets.harbor.executor_process import HarborEnded
from agentix.plugins.datasets.harbor.executor_result import BadResult, ExceptionInfo, Found, plain_text, read_result
from agentix.plugins.datasets.harbor.executor_trajectory import bring_trajectory
from agentix.plugins.datasets.harbor.reward import BadReward, choose, parse_number
from agentix.plugins.datasets.harbor.task import Task

_EXIT_CODE = "exit-code.txt"


def rollout_of(work: TrialWork, task: Task, job: Path, ended: HarborEnded, *, secrets: Iterable[str]) -> Rollout:
    """The result of an attempt; its failure says whose it was, and no exit status alone makes it a success.

    Args:
        work: The trial.
        task: What was run.
        job: The directory of Harbor's job.
        ended: How Harbor ended.
        secrets: Values that are in no message.
    """
    secrets = tuple(secrets)
    blank = Rollout(work.trial.instance_id, trial_id=work.trial.trial_id, index=work.trial.index)
    blank = dataclasses.replace(blank, unreleased=ended.unreleased)
    try:
        found = read_result(job)
    except BadResult as error:
        message = f"Harbor {ended.describe()} and its result cannot be read: {error}{_said(ended)}"
        return with_failure(blank, FailureCode.ENV_FAILED, without(message, secrets), "no_answer")
    if found is None:
        if ended.timed_out:
            return with_failure(blank, FailureCode.HOST_ERROR, _late(ended), "command_timeout")
        message = f"Harbor {ended.describe()} without a result{_said(ended)}"
        return with_failure(blank, FailureCode.ENV_FAILED, without(message, secrets), "no_answer")
    return _measured(blank, work, task, found, ended, secrets)


def with_failure(rollout: Rollout, code: FailureCode, message: str, detail: str | None) -> Rollout:
    """The rollout as one that has failed, without a score."""
    failure = Failure(code=code, message=message, detail=detail, boundary=boundary_of(code))
    return dataclasses.replace(rollout, score=None, failure=failure, error=f"{code}: {message}")


def _measured(
    blank: Rollout, work: TrialWork, task: Task, found: Found, ended: HarborEnded, secrets: Sequence[str]
) -> Rollout:
    result = found.result
    steps = [step.step_name for step in result.step_results or ()]
    trajectory, spent, notes = bring_trajectory(found.directory, steps)
    usage = result.usage
    if usage is not None and spent is not None:
        usage = dataclasses.replace(
            usage, turns=spent.turns, tool_calls=spent.tool_calls, cache_write=usage.cache_write or spent.cache_write
        )
    names = [one.exception_type for one in result.exceptions]
    rollout = dataclasses.replace(
        blank,
        usage=usage or spent,
        trajectory=trajectory,
        phases=result.phases,
        agent_version=None if result.agent_info is None else result.agent_info.version,
        agent_exit=_exit_code(found.directory, steps),
        info={"harbor": {"trial": found.directory.name, "exceptions": names}},
    )
    rollout = dataclasses.replace(rollout, ended=_how(rollout, result.exceptions))
    codes = [code_of(one.exception_type, message=one.exception_message) for one in result.exceptions]
    worst = next((at for at, code in enumerate(codes) if not code.is_agents), 0 if codes else None)
    if ended.timed_out and (worst is not None or not result.rewards):
        return with_failure(rollout, FailureCode.HOST_ERROR, _late(ended), "command_timeout")
    whose = None if worst is None else result.exceptions[worst]
    if whose is not None and worst is not None and not (codes[worst].is_agents and result.rewards):
        message = without(f"{whose.exception_type}: {whose.exception_message}", secrets)
        if result.rewards:
            message += f" (the tests gave {dict(result.rewards)}, which therefore says nothing)"
        return with_failure(rollout, codes[worst], message, detail_of(whose.exception_type))
    if not result.rewards and (ended.exit_code != 0 or result.finished_at is None):
        message = f"Harbor {ended.describe()} before the trial had a reward{_said(ended)}"
        return with_failure(rollout, FailureCode.ENV_FAILED, without(message, secrets), "no_answer")
    try:
        score = _score(result.rewards or {}, work, task, found)
    except BadReward as error:
        return with_failure(rollout, FailureCode.VERIFIER_ERROR, f"no reward: {error}", "no_reward")
    if whose is not None:
        notes.append(f"agent: {whose.exception_type}: {without(whose.exception_message, secrets)}".splitlines()[0])
    if ended.timed_out or ended.exit_code != 0:
        notes.append(f"Harbor {ended.describe()} after the trial was measured")
    return dataclasses.replace(rollout, score=score, notes=tuple(notes))


def _score(rewards: Mapping[str, Any], work: TrialWork, task: Task, found: Found) -> dict[str, Any]:
    if not rewards:
        raise BadReward("Harbor's result has none")
    numbers = {name: parse_number(value, name) for name, value in rewards.items()}
    key = work.case.options.get("reward_key")
    bare = set(numbers) == {"reward"} and not _from_json(task, found)
    value, rule = choose(numbers, key=None if bare or not isinstance(key, str) else key)
    score: dict[str, Any] = {"reward": value, "resolved": value >= 1, "reward_rule": "number" if bare else rule}
    if not bare:
        score["metrics"] = numbers
    steps = found.result.step_results
    if steps:
        score["strategy"] = task.file.multi_step_reward_strategy or "mean"
        score["steps"] = [
            {"name": step.step_name, "rewards": None if step.verifier_result is None else step.verifier_result.rewards}
            for step in steps
        ]
    return score


def _from_json(task: Task, found: Found) -> bool:
    """Whether the one number `reward` was a metric of that name, and not a bare number."""
    steps = found.result.step_results
    if not steps:
        return (found.directory / "verifier/reward.json").is_file()
    if (task.file.multi_step_reward_strategy or "mean") == "mean":
        return False
    return (found.directory / "steps" / steps[-1].step_name / "verifier/reward.json").is_file()


def _how(rollout: Rollout, exceptions: Sequence[ExceptionInfo]) -> Ended | None:
    codes = [code_of(one.exception_type, message=one.exception_message) for one in exceptions]
    if FailureCode.AGENT_TIMEOUT in codes:
        return "timeout"
    if FailureCode.AGENT_FAILED in codes or rollout.agent_exit not in (None, 0):
        return "agent_error"
    if any(code in (FailureCode.ENV_FAILED, FailureCode.HOST_ERROR) for code in codes):
        return None
    return "completed"


def _exit_code(trial: Path, steps: Sequence[str]) -> int | None:
    """What Harbor's oracle keeps of a solution that failed."""
    for directory in [trial / "steps" / name / "agent" for name in reversed(steps)] or [trial / "agent"]:
        try:
            return int(plain_text(directory / _EXIT_CODE, limit=16).strip())
        except (BadResult, ValueError):
            continue
    return None


def _late(ended: HarborEnded) -> str:
    return f"Harbor {ended.describe()}{_said(ended)}"


def _said(ended: HarborEnded) -> str:
    return f": {ended.said}" if ended.said else ""
