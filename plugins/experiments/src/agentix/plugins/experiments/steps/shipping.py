"""The step `ship`: hands a path to a configured command, or to a transport."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from agentix.api import Publishes, Scope, Step, StepContext, StepOutcome, UsageError, list_plugins, plugin_label
from agentix.plugins.experiments.documents import nearest
from agentix.plugins.experiments.steps.command_step import names_of
from agentix.plugins.experiments.steps.finding import (
    Found,
    installed,
    is_reference,
    load_step,
    ships,
    transport_of,
    transport_step,
    transport_steps,
)
from agentix.plugins.experiments.steps.inputs import StepProblem, StepRefused, input_problems, word_problems
from agentix.plugins.experiments.steps.resolved import place_problem
from agentix.plugins.experiments.steps.templates import example, fill_known
from agentix.plugins.experiments.steps.transport_step import PATH

if TYPE_CHECKING:
    from agentix.plugins.experiments.commands import Command


class ShipInputs(BaseModel):
    """What is shipped, with what, and where to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    using: str = Field(min_length=1)
    """A configured command, a step that ships such as `ship_hf`, or a transport such as `hf`."""
    path: str | None = None
    """What is shipped, in the run's directory; what a step before it made, by default."""
    dest: str | None = None
    """Where to; a command gets it as `DEST`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """More inputs of the transport; a command gets them as variables."""


class Ship:
    """Hand what may be published to a configured command, or to a transport.

    What goes is the `path`, else what a step before it made: the trial's archive or its redacted files, and per
    experiment the dataset, else the archives, else everything that may be published.
    """

    scopes = frozenset({Scope.PER_TRIAL, Scope.PER_EXPERIMENT})
    Inputs = ShipInputs
    publishes = True

    async def run(self, ctx: StepContext, inputs: ShipInputs) -> StepOutcome:
        """Ship with what is installed; a command is known to the file that configures it only.

        Raises:
            UsageError: There is no such thing, or it cannot do what the inputs say.
        """
        try:
            way = way_out(inputs.model_dump(exclude_none=True), ctx.scope, {}, where="ship")
        except StepRefused as error:
            raise UsageError(str(error)) from error
        assert way.found.step is not None
        return await way.found.step.run(ctx, way.found.step.Inputs.model_validate(way.given))


@dataclass(frozen=True, kw_only=True)
class WayOut:
    """What `ship` comes down to."""

    found: Found
    given: Mapping[str, Any] = field(default_factory=dict)
    """Its `dest` and its `options`, together."""


def way_out(
    given: Mapping[str, Any],
    scope: Scope,
    commands: Mapping[str, Command],
    *,
    where: str,
    notices: list[str] | None = None,
) -> WayOut:
    """Find what `ship` ships with, and check what that is told.

    Args:
        given: The inputs of `ship`, which say with what.
        scope: The list that the step is in.
        commands: The configured commands.
        where: Where the step stands.
        notices: Where to say that a command wins over what is installed.

    Raises:
        StepRefused: With everything that is wrong.
    """
    options = given.get("options", {})
    inner = {**options, **({} if given.get("dest") is None else {"dest": given["dest"]})}
    problems = [
        StepProblem(path=f"{where}.with.options.{key}", message=f"stands beside the options, as {key}")
        for key in ("dest", PATH)
        if key in options
    ]
    found = _find(given["using"], commands, where=f"{where}.with.using", notices=notices)
    if found.command is not None:
        problems += word_problems(found.command, names_of(scope, inner), f"{where}.with.using")
    elif found.step is not None:
        problems += _scope_problems(found.step, scope, where)
        wrong = input_problems(found.step, fill_known(inner, example(scope)), where, scope=scope)
        problems += (_as_written(problem, where) for problem in wrong)
    if problems:
        raise StepRefused(problems)
    return WayOut(found=found, given=inner)


def is_told(given: Mapping[str, Any]) -> bool:
    """Whether the inputs of `ship` say with what, whatever else is wrong with them."""
    using, options = given.get("using"), given.get("options", {})
    return isinstance(using, str) and bool(using) and isinstance(options, Mapping)


def path_problems(path: Any, where: str) -> Iterator[StepProblem]:
    """What is wrong with what a step is to ship.

    Args:
        path: The input, with its templates.
        where: Where the step stands.
    """
    at = f"{where}.with.{PATH}"
    if not isinstance(path, str):
        yield StepProblem(path=at, message="has to be text: the path of something in the run's directory")
    elif (wrong := place_problem(path)) is not None:
        yield StepProblem(path=at, message=wrong)
    elif "LocalPath" in path.replace(" ", ""):
        yield StepProblem(path=at, message="{{.LocalPath}} is what is shipped, which is to be said here")


def _find(name: str, commands: Mapping[str, Command], *, where: str, notices: list[str] | None) -> Found:
    command = commands.get(name)
    if command is not None:
        if notices is not None and ((ships(name) and installed(name)) or transport_of(name) is not None):
            notices.append(f"{where}: the configured command {name} ships, not what is installed as {name}")
        return Found(plugin=f"the command {name}", command=command)
    if ships(name) and installed(name):
        step = load_step(name, where)
        if not (isinstance(step, Publishes) and step.publishes):
            raise StepRefused([StepProblem(path=where, message=f"the step {name} does not say that it publishes")])
        return Found(plugin=plugin_label(step), step=step)
    if (transport := transport_of(name)) is not None:
        return transport_step(transport, where)
    bare = name.rpartition("/")[2]
    if is_reference(name) or any(info.name == bare for info in list_plugins("transport")):
        return transport_step(name, where)
    steps = {info.name for info in list_plugins("step") if ships(info.name)} | set(transport_steps())
    known = {*commands, *steps, *transport_steps().values()}
    raise StepRefused(
        [
            StepProblem(
                path=where,
                message=f"{name!r} is neither a configured command nor a step that ships nor a transport",
                near=nearest(name, known),
                unknown=True,
            )
        ]
    )


def _scope_problems(step: Step, scope: Scope, where: str) -> Iterator[StepProblem]:
    if scope not in step.scopes:
        able = ", ".join(s.value for s in Scope if s in step.scopes)
        yield StepProblem(path=f"{where}.with.using", message=f"it works {able}, not {scope.value}")


def _as_written(problem: StepProblem, where: str) -> StepProblem:
    """The problem of an input where the file has that input: all but `dest` stand among the options."""
    rest = problem.path.removeprefix(f"{where}.with.")
    if rest == problem.path or rest.split(".")[0].split("[")[0] == "dest":
        return problem
    return replace(problem, path=f"{where}.with.options.{rest}")
