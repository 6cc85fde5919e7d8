"""The steps of a file as a whole: each one found, their order checked, and redaction added where it is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agentix.api import Scope, slug
from agentix.plugins.experiments.documents import Pipeline, StepSpec
from agentix.plugins.experiments.steps.finding import inputs_of, installed, standard
from agentix.plugins.experiments.steps.inputs import StepProblem, StepRefused, StepUnknown
from agentix.plugins.experiments.steps.order import order_problems, place_problems, where_to_redact
from agentix.plugins.experiments.steps.placement import NOT_FIRST
from agentix.plugins.experiments.steps.resolved import ResolvedStep
from agentix.plugins.experiments.steps.resolving import resolve_step

if TYPE_CHECKING:
    from agentix.plugins.experiments.commands import Command

EXECUTOR_WORDS = ("auto", "local")
"""What the first per-trial step may say instead of a step's name."""
REDACT = "redact"
"""The step that is added where the file publishes and names none that redacts."""


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


def resolve_pipeline(
    pipeline: Pipeline, *, commands: Mapping[str, Command], file: Path | None = None
) -> ResolvedPipeline:
    """Find every step, and gather what is wrong with any of them.

    Args:
        pipeline: As the file has it.
        commands: The configured commands.
        file: The experiment file, beside which inputs that are paths of this machine may be.
    """
    problems: list[StepProblem] = []
    notices: list[str] = []
    taken: set[str] = set()
    found: dict[Scope, dict[str, ResolvedStep]] = {scope: {} for scope in Scope}
    executor: ResolvedStep | None = None
    refused = unknown = False
    for scope in Scope:
        specs: tuple[StepSpec, ...] = getattr(pipeline, scope.value)
        for number, (spec, key) in enumerate(zip(specs, _keys(specs), strict=True)):
            path = f"pipeline.{scope.value}[{number}]"
            first = scope is Scope.PER_TRIAL and number == 0
            if spec.uses in EXECUTOR_WORDS and not installed(spec.uses) and spec.uses not in commands:
                problems += [] if first else [StepProblem(path=f"{path}.uses", message=NOT_FIRST.format(spec.uses))]
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
                    file=file,
                )
            except StepRefused as error:
                problems += error.problems
                refused = True
                if isinstance(error, StepUnknown):
                    meant = inputs_of(error.problems[0].near, commands)
                    unknown = unknown or meant is None
                    taken |= meant or set()
                continue
            if first and step.executes:
                executor = step
            else:
                found[scope][path] = step
    problems += order_problems(found[Scope.PER_TRIAL])
    problems += place_problems(found[Scope.PER_EXPERIMENT])
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
    # A step of which nobody knows what was meant may be the one that takes them.
    unused = () if unknown else [name for name in pipeline.inputs if name not in taken]
    problems += [StepProblem(path=f"pipeline.with.{name}", message="no step takes this input") for name in unused]
    return ResolvedPipeline(
        per_case=tuple(found[Scope.PER_CASE].values()),
        per_trial=tuple(per_trial),
        per_experiment=tuple(found[Scope.PER_EXPERIMENT].values()),
        redact=redact,
        executor=executor,
        notices=tuple(notices),
        problems=tuple(dict.fromkeys(problems)),
    )


def _default_redact(pipeline: Pipeline, *, taken: set[str]) -> ResolvedStep:
    spec = StepSpec(uses=standard(REDACT), name=REDACT)
    *_, key = _keys((*pipeline.per_trial, spec))
    return resolve_step(
        spec, Scope.PER_TRIAL, {}, path="pipeline.per_trial", key=key, defaults=pipeline.inputs, taken=taken
    )


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
