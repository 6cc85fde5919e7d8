"""What steps themselves say is missing, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from agentix.api import AgentUse, ChecksAhead, Scope, UsageError
from agentix.plugins.experiments.documents import AgentSpec, Problem, Submission, problem
from agentix.plugins.experiments.plan.agents import agent_use

if TYPE_CHECKING:
    from agentix.plugins.experiments.commands import Command
    from agentix.plugins.experiments.steps.resolved import ResolvedStep

_CHOSEN = "--executor"


def own_problems(
    submission: Submission, commands: Mapping[str, Command], steps: Iterable[ResolvedStep], executor: ResolvedStep
) -> Iterator[Problem]:
    """Ask every step that can tell; those that the file does not name are told by the option that does.

    Args:
        submission: The file.
        commands: The configured commands.
        steps: Those that will be run.
        executor: What runs the trials.
    """
    experiment = submission.experiment
    agents = list(_agents(experiment.matrix.agents, commands))
    limits = experiment.limits.to_limits()
    for step in steps:
        if not isinstance(step.step, ChecksAhead):
            continue
        path = _path(submission, step, executor)
        told = {"agents": agents, "limits": limits} if step.executes else {}
        for message in step.step.check(step.example_inputs(), **told):
            found = problem(submission, path, message)
            yield replace(found, line=None) if path == _CHOSEN else found


def _agents(specs: Iterable[AgentSpec], commands: Mapping[str, Command]) -> Iterator[AgentUse]:
    for spec in specs:
        with suppress(UsageError):  # of a command that is wrong it is told where it stands
            yield agent_use(spec, commands)


def _path(submission: Submission, step: ResolvedStep, executor: ResolvedStep) -> str:
    for scope in Scope:
        specs = getattr(submission.experiment.pipeline, scope.value)
        for number, spec in enumerate(specs):
            if spec is step.spec:
                return f"pipeline.{scope.value}[{number}]"
    return _CHOSEN if step is executor else f"pipeline.{step.scope.value}"
