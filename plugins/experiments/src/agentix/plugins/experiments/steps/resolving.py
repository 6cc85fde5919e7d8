"""From a step of the file to one that is ready to run: what it uses, and whether its inputs are right."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from agentix.api import Executes, Publishes, Redacts, Reports, Scope, Step, slug
from agentix.plugins.experiments.documents import StepSpec
from agentix.plugins.experiments.steps.command_step import FIX_VARIABLES, names_of
from agentix.plugins.experiments.steps.finding import Found, find_step, installed, ships
from agentix.plugins.experiments.steps.inputs import (
    StepProblem,
    StepRefused,
    input_problems,
    template_problems,
    word_problems,
)
from agentix.plugins.experiments.steps.placement import mark_problems, shipping_problems, use_problems
from agentix.plugins.experiments.steps.resolved import ResolvedStep
from agentix.plugins.experiments.steps.shipping import Ship, is_told, path_problems, way_out
from agentix.plugins.experiments.steps.templates import example, fill_known
from agentix.plugins.experiments.steps.transport_step import PATH, TransportStep

if TYPE_CHECKING:
    from agentix.plugins.experiments.commands import Command


def resolve_step(
    spec: StepSpec,
    scope: Scope,
    commands: Mapping[str, Command],
    *,
    path: str | None = None,
    key: str | None = None,
    first: bool = False,
    notices: list[str] | None = None,
    defaults: Mapping[str, Any] = MappingProxyType({}),
    taken: set[str] | None = None,
    file: Path | None = None,
) -> ResolvedStep:
    """Find what a step uses and check its inputs.

    An installed step wins over a configured command of its name. Where the first per-trial step runs the trial, it is
    the other way round: the command is how the file's author reaches the same thing on this machine.

    Args:
        spec: The step in the file.
        scope: The list that it is in.
        commands: The configured commands by name.
        path: Where it stands, for problems.
        key: Name of its directories; from its label by default.
        first: Whether it is the first per-trial step, and so may run the trial.
        notices: Where to say what the user should know.
        defaults: Inputs that it gets where it takes them and its own do not say otherwise.
        taken: Gets the names of its inputs.
        file: The experiment file.

    Raises:
        StepRefused: With everything that is wrong with it.
    """
    where = path or f"pipeline.{scope.value}.{spec.uses}"
    if first and (executor := _executor(spec.uses, commands, where=where, notices=notices)) is not None:
        found, executes = executor, True
    else:
        found = find_step(spec.uses, commands, where=f"{where}.uses", notices=notices)
        executes = isinstance(found.step, Executes) and bool(found.step.executes)
    problems = [*use_problems(spec, scope, where, commands, step=found.step, executes=executes, first=first)]
    given = {**_taken(defaults, found.step, executes=executes), **spec.inputs}
    if taken is not None:
        taken |= set(given)
    problems += template_problems(given, scope, where)
    handed = isinstance(found.step, Ship)
    shipping = not executes and (handed or ships(spec.uses))
    source = given.pop(PATH, None) if shipping else None
    if source is not None:
        problems += path_problems(source, where)
    if found.step is None and found.command is not None and not executes:
        problems += word_problems(found.command, names_of(scope, given), f"{where}.uses")
    if scope is Scope.PER_CASE and spec.fix is not None and spec.fix in commands:
        problems += word_problems(commands[spec.fix], {*names_of(scope, {}), *FIX_VARIABLES}, f"{where}.fix")
    if found.step is not None:
        told = {problem.path for problem in problems}
        wrong = input_problems(found.step, fill_known(given, example(scope)), where, scope=scope)
        problems += [problem for problem in wrong if problem.path not in told]
    if handed and is_told(given):
        try:
            way = way_out(given, scope, commands, where=where, notices=notices)
            found, given = way.found, dict(way.given)
        except StepRefused as error:
            told = {problem.path for problem in problems}
            problems += [problem for problem in error.problems if problem.path not in told]
    publishes = shipping or (isinstance(found.step, Publishes) and bool(found.step.publishes))
    redacts = isinstance(found.step, Redacts) and bool(found.step.redacts)
    problems += mark_problems(spec, scope, where, publishes=publishes, redacts=redacts)
    if shipping and (found.step is None or isinstance(found.step, TransportStep)):
        problems += shipping_problems(spec, where)
    if problems:
        raise StepRefused(
            [_where_given(problem, where, of_all=defaults.keys() - spec.inputs.keys()) for problem in problems]
        )
    return ResolvedStep(
        spec=spec,
        scope=scope,
        kind="command" if found.step is None else "plugin",
        plugin=found.plugin,
        key=key or slug(spec.label),
        step=found.step,
        command=found.command,
        executes=executes,
        reports=isinstance(found.step, Reports) and bool(found.step.reports),
        redacts=redacts,
        publishes=publishes,
        ships=shipping,
        path=source,
        fix=commands[spec.fix] if spec.fix else None,
        given=given,
        file=file,
    )


def _executor(name: str, commands: Mapping[str, Command], *, where: str, notices: list[str] | None) -> Found | None:
    """The configured command that runs the trials; it wins over an installed step that would run them."""
    command = commands.get(name)
    if command is None or ships(name):
        return None
    if installed(name):
        found = find_step(name, {}, where=f"{where}.uses")
        if not (isinstance(found.step, Executes) and found.step.executes):
            return None
        if notices is not None:
            notices.append(f"{where}: the configured command {name} runs the trials, not the installed {found.plugin}")
    return Found(plugin=f"the command {name}", command=command)


def _where_given(problem: StepProblem, where: str, *, of_all: Set[str]) -> StepProblem:
    """The problem of an input at the place that gives it: that of all steps where the step says nothing itself."""
    rest = problem.path.removeprefix(f"{where}.with.")
    name = rest.split(".")[0].split("[")[0]
    return replace(problem, path=f"pipeline.with.{rest}") if rest != problem.path and name in of_all else problem


def _taken(defaults: Mapping[str, Any], step: Step | None, *, executes: bool) -> dict[str, Any]:
    """The defaults that are for a step; a command takes all, but what runs the trial is told by its own inputs only."""
    if step is None:
        return {} if executes else dict(defaults)
    known = {key for name, info in step.Inputs.model_fields.items() for key in (name, info.alias) if key}
    return {key: value for key, value in defaults.items() if key in known}
