"""Find and check the steps of the file before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from agentix.api import AgentixError, Executes, Reports, Scope, Step, list_plugins, load, plugin_label, slug
from agentix.plugins.experiments.documents import Pipeline, StepSpec, nearest
from agentix.plugins.experiments.steps.command_step import FIX_VARIABLES, names_of
from agentix.plugins.experiments.steps.inputs import (
    StepProblem,
    input_problems,
    template_problems,
    word_problems,
)
from agentix.plugins.experiments.steps.resolved import ResolvedStep
from agentix.plugins.experiments.steps.templates import example, fill

if TYPE_CHECKING:
    from agentix.plugins.experiments.commands import Command


class StepRefused(AgentixError):
    """A step cannot be used as the file asks."""

    def __init__(self, problems: Sequence[StepProblem]) -> None:
        super().__init__("\n".join(f"{p.path}: {p.message}" for p in problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, kw_only=True)
class ResolvedPipeline:
    """All steps of an experiment but the executor."""

    per_case: tuple[ResolvedStep, ...] = ()
    per_trial: tuple[ResolvedStep, ...] = ()
    """Those after the trial was run."""
    per_experiment: tuple[ResolvedStep, ...] = ()
    redact: ResolvedStep | None = None
    """The step of `per_trial` that redacts: the file's, or the one that is added where the file publishes."""
    executor: ResolvedStep | None = None
    """The first per-trial step, where it runs the trial; `None` where the file names none."""
    notices: tuple[str, ...] = ()
    problems: tuple[StepProblem, ...] = field(default=())

    @property
    def steps(self) -> tuple[ResolvedStep, ...]:
        """All of them, the executor among them."""
        first = () if self.executor is None else (self.executor,)
        return (*self.per_case, *first, *self.per_trial, *self.per_experiment)


def resolve_pipeline(pipeline: Pipeline, *, commands: Mapping[str, Command]) -> ResolvedPipeline:
    """Find every step, and gather what is wrong with any of them."""
    problems: list[StepProblem] = []
    notices: list[str] = []
    unused = set(pipeline.inputs)
    found: dict[Scope, list[ResolvedStep]] = {scope: [] for scope in Scope}
    executor: ResolvedStep | None = None
    for scope in Scope:
        specs: tuple[StepSpec, ...] = getattr(pipeline, scope.value)
        for number, (spec, key) in enumerate(zip(specs, _keys(specs), strict=True)):
            path = f"pipeline.{scope.value}[{number}]"
            first = scope is Scope.PER_TRIAL and number == 0
            if spec.uses in EXECUTOR_WORDS and not _installed(spec.uses) and spec.uses not in commands:
                problems += [] if first else [StepProblem(path=f"{path}.uses", message=_NOT_FIRST.format(spec.uses))]
                continue
            try:
                step = resolve_step(
                    spec,
                    scope,
                    commands,
                    path=path,
                    key=key,
                    first=first,
                    notices=notices,
                    defaults=pipeline.inputs,
                )
            except StepRefused as error:
                problems += error.problems
                unused.clear()  # it may be the one that takes them
                continue
            unused -= set(step.given)
            if first and step.executes:
                executor = step
            else:
                found[scope].append(step)
    problems += [StepProblem(path=f"pipeline.with.{name}", message="no step takes this input") for name in unused]
    return ResolvedPipeline(
        per_case=tuple(found[Scope.PER_CASE]),
        per_trial=tuple(found[Scope.PER_TRIAL]),
        per_experiment=tuple(found[Scope.PER_EXPERIMENT]),
        executor=executor,
        notices=tuple(notices),
        problems=tuple(problems),
    )


EXECUTOR_WORDS = ("auto", "local")
"""What the first per-trial step may say instead of a step's name."""
_NOT_FIRST = "{} runs the trial, which only the first step of per_trial can do"


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

    Raises:
        StepRefused: With everything that is wrong with it.
    """
    where = path or f"pipeline.{scope.value}.{spec.uses}"
    command = commands.get(spec.uses)
    step, plugin = None, f"the command {spec.uses}"
    if _installed(spec.uses) or (command is None and _is_reference(spec.uses)):
        step, plugin = _load(spec.uses, where)
    elif command is None:
        known = {info.name for info in list_plugins("step")} | set(commands)
        raise StepRefused(
            [
                StepProblem(
                    path=f"{where}.uses",
                    message=f"{spec.uses!r} is neither an installed step nor a configured command",
                    near=nearest(spec.uses, known),
                )
            ]
        )
    executes = isinstance(step, Executes) and bool(step.executes)
    if first and command is not None and (step is None or executes):
        if step is not None and notices is not None:
            notices.append(f"{where}: the configured command {spec.uses} runs the trials, not the installed {plugin}")
        step, plugin, executes = None, f"the command {spec.uses}", True
    problems = [*_use_problems(spec, scope, where, commands, step=step, executes=executes, first=first)]
    given = {**_taken(defaults, step, executes=executes), **spec.inputs}
    problems += template_problems(given, scope, where)
    if step is None and command is not None and not executes:
        problems += word_problems(command, names_of(scope, given))
    if scope is Scope.PER_CASE and spec.fix is not None and spec.fix in commands:
        problems += word_problems(commands[spec.fix], {*names_of(scope, {}), *FIX_VARIABLES})
    if step is not None and not problems:
        problems += input_problems(step, fill(given, example(scope)), where, scope=scope)
    if problems:
        raise StepRefused(problems)
    return ResolvedStep(
        spec=spec,
        scope=scope,
        kind="command" if step is None else "plugin",
        plugin=plugin,
        key=key or slug(spec.label),
        step=step,
        command=command if step is None else None,
        executes=executes,
        reports=isinstance(step, Reports) and bool(step.reports),
        fix=commands[spec.fix] if spec.fix else None,
        given=given,
    )


def _taken(defaults: Mapping[str, Any], step: Step | None, *, executes: bool) -> dict[str, Any]:
    """The defaults that are for a step; a command takes all, but what runs the trial is told by its own inputs only."""
    if step is None:
        return {} if executes else dict(defaults)
    known = {key for name, info in step.Inputs.model_fields.items() for key in (name, info.alias) if key}
    return {key: value for key, value in defaults.items() if key in known}


def _installed(name: str) -> bool:
    bare = name.rpartition("/")[2]
    return any(info.name == bare for info in list_plugins("step"))


def _is_reference(name: str) -> bool:
    return ":" in name or name.endswith(".py")


def _load(name: str, where: str) -> tuple[Step, str]:
    try:
        step = load("step", name, where=f"{where}.uses")
    except AgentixError as error:
        message = str(error).removeprefix(f"{where}.uses: ")
        raise StepRefused([StepProblem(path=f"{where}.uses", message=message)]) from error
    return step, plugin_label(step)


def _use_problems(
    spec: StepSpec,
    scope: Scope,
    where: str,
    commands: Mapping[str, Command],
    *,
    step: Step | None,
    executes: bool,
    first: bool,
) -> Iterator[StepProblem]:
    if step is not None and scope not in step.scopes:
        able = ", ".join(s.value for s in Scope if s in step.scopes)
        yield StepProblem(path=f"{where}.uses", message=f"the step {spec.uses} works {able}, not {scope.value}")
    elif executes and not first:
        yield StepProblem(path=f"{where}.uses", message=_NOT_FIRST.format(spec.uses))
    if spec.on_violation == "drop" and scope is not Scope.PER_TRIAL:
        yield StepProblem(path=f"{where}.on_violation", message="only a trial can be dropped, by a per_trial step")
    if spec.fix is not None and spec.fix not in commands:
        yield StepProblem(
            path=f"{where}.fix",
            message=f"there is no configured command {spec.fix!r}",
            near=nearest(spec.fix, commands),
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


def _keys(specs: Sequence[StepSpec]) -> Iterator[str]:
    used: set[str] = set()
    for spec in specs:
        bare = slug(spec.name or Path(spec.uses).name)
        key, number = bare, 1
        while key in used:
            number += 1
            key = f"{bare}-{number}"
        used.add(key)
        yield key
