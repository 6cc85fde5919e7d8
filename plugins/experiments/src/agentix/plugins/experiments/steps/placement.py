"""What a step may be where it stands in the file, and what its keys may say there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from agentix.api import Scope, Step
from agentix.plugins.experiments.documents import StepSpec, nearest
from agentix.plugins.experiments.steps.inputs import StepProblem

if TYPE_CHECKING:
    from agentix.plugins.experiments.commands import Command

NOT_FIRST = "{} runs the trial, which only the first step of per_trial can do"


def use_problems(
    spec: StepSpec,
    scope: Scope,
    where: str,
    commands: Mapping[str, Command],
    *,
    step: Step | None,
    executes: bool,
    first: bool,
) -> Iterator[StepProblem]:
    """What is wrong with a step in its list, whatever it publishes.

    Args:
        spec: The step in the file.
        scope: The list.
        where: Where it stands.
        commands: The configured commands.
        step: What it uses, where that is no command.
        executes: Whether it runs the trial.
        first: Whether it is the first per-trial step.
    """
    if step is not None and scope not in step.scopes:
        able = ", ".join(s.value for s in Scope if s in step.scopes)
        yield StepProblem(path=f"{where}.uses", message=f"the step {spec.uses} works {able}, not {scope.value}")
    elif executes and not first:
        yield StepProblem(path=f"{where}.uses", message=NOT_FIRST.format(spec.uses))
    if spec.on_violation == "drop" and scope is not Scope.PER_TRIAL:
        yield StepProblem(path=f"{where}.on_violation", message="only a trial can be dropped, by a per_trial step")
    if spec.fix is not None and spec.fix not in commands:
        yield StepProblem(
            path=f"{where}.fix",
            message=f"there is no configured command {spec.fix!r}",
            near=nearest(spec.fix, commands),
            unknown=True,
        )
    for key, is_set in (
        ("fix", spec.fix is not None),
        ("fix_writeback", spec.fix_writeback),
        ("fix_attempts", spec.fix_attempts != 1),
    ):
        if is_set and scope is not Scope.PER_CASE:
            yield StepProblem(path=f"{where}.{key}", message="only a case can be repaired, by a per_case step")
        elif is_set and spec.fix is None:
            yield StepProblem(path=f"{where}.{key}", message="says how to repair, and there is no fix")


def mark_problems(spec: StepSpec, scope: Scope, where: str, *, publishes: bool, redacts: bool) -> Iterator[StepProblem]:
    """What is wrong with one that publishes or redacts."""
    if publishes and scope is Scope.PER_CASE:
        yield StepProblem(path=f"{where}.uses", message=f"{spec.uses} publishes, and of a case nothing is published")
    if not redacts:
        return
    unpublished = "a trial that could not be redacted is never published"
    if spec.on_failure != "fail":
        yield StepProblem(path=f"{where}.on_failure", message=f"has to be fail: {unpublished}")
    if spec.on_violation == "warn":
        yield StepProblem(path=f"{where}.on_violation", message=f"cannot be warn: {unpublished}")


def shipping_problems(spec: StepSpec, where: str) -> Iterator[StepProblem]:
    """What is wrong with one that ships, and so comes to no verdict."""
    if spec.on_violation is not None:
        message = "what is shipped arrives or does not, which is no verdict; say on_failure"
        yield StepProblem(path=f"{where}.on_violation", message=message)
