"""Find and check the steps of the file before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from agentix.api import Executes, Publishes, Redacts, Reports, Scope, Step, slug
from agentix.plugins.experiments.documents import Pipeline, StepSpec, nearest
from agentix.plugins.experiments.steps.command_step import FIX_VARIABLES, names_of
from agentix.plugins.experiments.steps.finding import Found, find_step, installed, ships, standard
from agentix.plugins.experiments.steps.inputs import (
    StepProblem,
    StepRefused,
    input_problems,
    template_problems,
    word_problems,
)
from agentix.plugins.experiments.steps.order import order_problems, where_to_redact
from agentix.plugins.experiments.steps.resolved import ResolvedStep
from agentix.plugins.experiments.steps.shipping import Ship, path_problems, way_out
from agentix.plugins.experiments.steps.templates import example, fill
from agentix.plugins.experiments.steps.transport_step import PATH, TransportStep

if TYPE_CHECKING:
    from agentix.plugins.experiments.commands import Command


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
    taken: set[str] = set()
    found: dict[Scope, dict[str, ResolvedStep]] = {scope: {} for scope in Scope}
    executor: ResolvedStep | None = None
    refused = False
    for scope in Scope:
        specs: tuple[StepSpec, ...] = getattr(pipeline, scope.value)
        for number, (spec, key) in enumerate(zip(specs, _keys(specs), strict=True)):
            path = f"pipeline.{scope.value}[{number}]"
            first = scope is Scope.PER_TRIAL and number == 0
            if spec.uses in EXECUTOR_WORDS and not installed(spec.uses) and spec.uses not in commands:
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
                    taken=taken,
                )
            except StepRefused as error:
                problems += error.problems
                refused = True
                continue
            if first and step.executes:
                executor = step
            else:
                found[scope][path] = step
    problems += order_problems(found[Scope.PER_TRIAL])
    per_trial = list(found[Scope.PER_TRIAL].values())
    redact = next((step for step in per_trial if step.redacts), None)
    publishing = [step for steps in found.values() for step in steps.values() if step.publishes]
    if redact is None and publishing and not refused:
        try:
            redact = _default_redact(pipeline, taken=taken)
            place, said = where_to_redact(per_trial)
            per_trial.insert(place, redact)
            notices.append(said)
        except StepRefused as error:
            problems += error.problems
    # A step that was refused may be the one that takes them.
    unused = () if refused else [name for name in pipeline.inputs if name not in taken]
    problems += [StepProblem(path=f"pipeline.with.{name}", message="no step takes this input") for name in unused]
    return ResolvedPipeline(
        per_case=tuple(found[Scope.PER_CASE].values()),
        per_trial=tuple(per_trial),
        per_experiment=tuple(found[Scope.PER_EXPERIMENT].values()),
        redact=redact,
        executor=executor,
        notices=tuple(notices),
        problems=tuple(problems),
    )


EXECUTOR_WORDS = ("auto", "local")
"""What the first per-trial step may say instead of a step's name."""
REDACT = "redact"
"""The step that is added where the file publishes and names none that redacts."""
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
    taken: set[str] | None = None,
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

    Raises:
        StepRefused: With everything that is wrong with it.
    """
    where = path or f"pipeline.{scope.value}.{spec.uses}"
    if first and (executor := _executor(spec.uses, commands, where=where, notices=notices)) is not None:
        found, executes = executor, True
    else:
        found = find_step(spec.uses, commands, where=f"{where}.uses", notices=notices)
        executes = isinstance(found.step, Executes) and bool(found.step.executes)
    problems = [*_use_problems(spec, scope, where, commands, step=found.step, executes=executes, first=first)]
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
        problems += word_problems(found.command, names_of(scope, given))
    if scope is Scope.PER_CASE and spec.fix is not None and spec.fix in commands:
        problems += word_problems(commands[spec.fix], {*names_of(scope, {}), *FIX_VARIABLES})
    if found.step is not None and not problems:
        problems += input_problems(found.step, fill(given, example(scope)), where, scope=scope)
    if handed and not problems:
        way = way_out(given, scope, commands, where=where, notices=notices)
        found, given = way.found, dict(way.given)
    publishes = shipping or (isinstance(found.step, Publishes) and bool(found.step.publishes))
    redacts = isinstance(found.step, Redacts) and bool(found.step.redacts)
    problems += _marks_problems(spec, scope, where, publishes=publishes, redacts=redacts)
    if shipping and (found.step is None or isinstance(found.step, TransportStep)):
        problems += _shipping_problems(spec, where)
    if problems:
        raise StepRefused(problems)
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


def _default_redact(pipeline: Pipeline, *, taken: set[str]) -> ResolvedStep:
    spec = StepSpec(uses=standard(REDACT), name=REDACT)
    *_, key = _keys((*pipeline.per_trial, spec))
    return resolve_step(
        spec, Scope.PER_TRIAL, {}, path="pipeline.per_trial", key=key, defaults=pipeline.inputs, taken=taken
    )


def _taken(defaults: Mapping[str, Any], step: Step | None, *, executes: bool) -> dict[str, Any]:
    """The defaults that are for a step; a command takes all, but what runs the trial is told by its own inputs only."""
    if step is None:
        return {} if executes else dict(defaults)
    known = {key for name, info in step.Inputs.model_fields.items() for key in (name, info.alias) if key}
    return {key: value for key, value in defaults.items() if key in known}


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


def _marks_problems(
    spec: StepSpec, scope: Scope, where: str, *, publishes: bool, redacts: bool
) -> Iterator[StepProblem]:
    if publishes and scope is Scope.PER_CASE:
        yield StepProblem(path=f"{where}.uses", message=f"{spec.uses} publishes, and of a case nothing is published")
    if not redacts:
        return
    unpublished = "a trial that could not be redacted is never published"
    if spec.on_failure != "fail":
        yield StepProblem(path=f"{where}.on_failure", message=f"has to be fail: {unpublished}")
    if spec.on_violation == "warn":
        yield StepProblem(path=f"{where}.on_violation", message=f"cannot be warn: {unpublished}")


def _shipping_problems(spec: StepSpec, where: str) -> Iterator[StepProblem]:
    if spec.on_violation is not None:
        message = "what is shipped arrives or does not, which is no verdict; say on_failure"
        yield StepProblem(path=f"{where}.on_violation", message=message)


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
