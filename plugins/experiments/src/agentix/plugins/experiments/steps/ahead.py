"""What steps themselves say is missing, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from agentix.api import AgentUse, ChecksAhead, Limits, Scope
from agentix.plugins.experiments.documents import LimitsSpec, Problem, Submission, problem
from agentix.plugins.experiments.plan.agents import COMMAND_PREFIX
from agentix.plugins.experiments.steps.templates import example, fill

if TYPE_CHECKING:
    from agentix.plugins.experiments.commands import Command
    from agentix.plugins.experiments.steps.resolved import ResolvedStep
    from agentix.plugins.experiments.steps.resolving import ResolvedPipeline

_CHOSEN = "--executor"


def ahead_problems(
    submission: Submission, commands: Mapping[str, Command], pipeline: ResolvedPipeline, executor: ResolvedStep
) -> Iterator[Problem]:
    """Ask every step that can tell; those that the file does not name are told by the option that does.

    Args:
        submission: The file.
        commands: The configured commands.
        pipeline: Its steps.
        executor: What runs the trials.
    """
    others = [step for step in pipeline.steps if step is not pipeline.executor]
    agents = [agent_use(submission, commands, number) for number in range(len(submission.experiment.matrix.agents))]
    limits = limits_of(submission.experiment.limits)
    for step in (executor, *others):
        if not isinstance(step.step, ChecksAhead):
            continue
        inputs = step.step.Inputs.model_validate(fill(step.given, example(step.scope)))
        path = _path(submission, step, executor)
        told = {"agents": agents, "limits": limits} if step.executes else {}
        for message in step.step.check(inputs, **told):
            found = problem(submission, path, message)
            yield replace(found, line=None) if path == _CHOSEN else found


def agent_use(submission: Submission, commands: Mapping[str, Command], number: int) -> AgentUse:
    """An agent of the matrix as executors get it."""
    spec = submission.experiment.matrix.agents[number]
    command = commands.get(COMMAND_PREFIX + spec.name)
    return AgentUse(
        name=spec.id or spec.name,
        ref=spec.name,
        options=dict(spec.options),
        command=None if command is None else command.name,
    )


def limits_of(spec: LimitsSpec) -> Limits | None:
    """What the file says of limits; `None` where it says nothing."""
    values = {
        "agent_s": spec.timeout,
        "max_tool_calls": spec.max_tool_calls,
        "max_tokens": spec.max_tokens,
        "max_cost_usd": spec.max_cost_usd,
        "max_turns": spec.max_turns,
    }
    given = {name: value for name, value in values.items() if value is not None}
    return Limits.model_validate(given) if given else None


def _path(submission: Submission, step: ResolvedStep, executor: ResolvedStep) -> str:
    for scope in Scope:
        specs = getattr(submission.experiment.pipeline, scope.value)
        for number, spec in enumerate(specs):
            if spec is step.spec:
                return f"pipeline.{scope.value}[{number}]"
    return _CHOSEN if step is executor else f"pipeline.{step.scope.value}"
