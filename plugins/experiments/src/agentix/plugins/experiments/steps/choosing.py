"""Which step runs the trials: what the command line says, else the file, else what there is."""

from __future__ import annotations

from collections.abc import Mapping

from agentix.api import Executes, Scope, UsageError
from agentix.plugins.experiments.commands import Command
from agentix.plugins.experiments.documents import StepSpec
from agentix.plugins.experiments.steps.finding import find_step
from agentix.plugins.experiments.steps.inputs import StepRefused, StepUnknown
from agentix.plugins.experiments.steps.pipeline import ResolvedPipeline
from agentix.plugins.experiments.steps.resolved import ResolvedStep
from agentix.plugins.experiments.steps.resolving import resolve_step

AUTO = "auto"
PREFERRED = "harbor"
"""A command of this name is the executor where nothing else is said."""
NATIVE = "rollout"


def choose_executor(
    pipeline: ResolvedPipeline, commands: Mapping[str, Command], *, asked: str | None = None
) -> tuple[ResolvedStep, tuple[str, ...]]:
    """The step that runs the trials, and what the user should know of the choice.

    Args:
        pipeline: The steps of the file.
        commands: The configured commands.
        asked: What `--executor` says.

    Raises:
        UsageError: It names nothing that runs trials.
    """
    notices: list[str] = []
    if asked is None and pipeline.executor is not None:
        return pipeline.executor, ()
    name = AUTO if asked is None else asked
    if name == AUTO:
        name = PREFERRED if PREFERRED in commands else NATIVE
        if name not in commands:
            notices.append(f"executor: the step {name} runs the trials")
    elif pipeline.executor is not None and pipeline.executor.spec.uses != name:
        notices.append(f"executor: {name} runs the trials (--executor), not {pipeline.executor.label}")
    where = "executor" if asked in (None, AUTO) else "--executor"
    said = len(notices)
    try:
        step = resolve_step(StepSpec(uses=name), Scope.PER_TRIAL, commands, path=where, first=True, notices=notices)
    except StepRefused as error:
        if not isinstance(error, StepUnknown) and not _executes(name, commands):
            raise _runs_none(name) from None
        found = error.problems[0]
        hint = f"Did you mean {found.near!r}?" if found.near else None
        raise UsageError(f"--executor {name}: {found.message}", hint=hint) from None
    if not step.executes:
        raise _runs_none(name)
    if name in commands and asked in (None, AUTO) and len(notices) == said:
        notices.append(f"executor: the command {name} runs the trials")
    return step, tuple(notices)


def _executes(name: str, commands: Mapping[str, Command]) -> bool:
    step = find_step(name, commands, where=name).step
    return name in commands or (isinstance(step, Executes) and bool(step.executes))


def _runs_none(name: str) -> UsageError:
    return UsageError(f"--executor {name}: this step does not run trials", hint="Such are rollout and local.")
