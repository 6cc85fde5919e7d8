"""What only the installed plugins and this machine can tell of an experiment file, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from agentix.api import AgentixError, list_plugins, load
from agentix.plugins.experiments.cases import foresee
from agentix.plugins.experiments.commands import Command, check_commands, commands_of
from agentix.plugins.experiments.documents import (
    ExperimentError,
    Problem,
    Submission,
    nearest,
    problem,
    read,
    with_hint,
)
from agentix.plugins.experiments.plan import AgentKind, agent_kinds, id_problems
from agentix.plugins.experiments.steps.choosing import choose_executor
from agentix.plugins.experiments.steps.own_checks import own_problems
from agentix.plugins.experiments.steps.pipeline import ResolvedPipeline, resolve_pipeline
from agentix.plugins.experiments.steps.resolved import ResolvedStep


@dataclass(frozen=True, kw_only=True)
class Checked:
    """An experiment file with what it names, found and checked."""

    submission: Submission
    commands: Mapping[str, Command]
    pipeline: ResolvedPipeline
    executor: ResolvedStep
    kinds: tuple[AgentKind, ...]
    """Of the agents of the matrix, in its order."""
    problems: tuple[Problem, ...]
    """Those of the file itself among them."""
    notices: tuple[str, ...] = ()
    trials: bool = True
    """Whether trials are to be run."""
    steps: bool = True
    """Whether steps are."""

    @property
    def native(self) -> bool:
        """Whether trials run in sandboxes of ours, so that agents and datasets are plugins."""
        return self.executor.step is not None and hasattr(self.executor.step, "provider")

    def case_problems(self, *, every: bool = True) -> tuple[Problem, ...]:
        """What is wrong with the cases, as far as that is known before anything is fetched.

        Args:
            every: Whether all cases will be run, so that no two of them may have trials of one id.
        """
        found = foresee(self.submission)
        once = [kind.deterministic for kind in self.kinds]
        ids = id_problems(self.submission, found.cases, deterministic=once) if every else ()
        return (*found.problems, *ids)

    def raise_problems(self, more: Iterable[Problem] = ()) -> None:
        """Tell all that is wrong, if anything is.

        Args:
            more: What was found besides.

        Raises:
            ExperimentError: There are problems.
        """
        problems = together(self.problems, more)
        if problems:
            raise ExperimentError(problems)


def check_file(
    path: Path,
    *,
    commands: Path | None = None,
    executor: str | None = None,
    trials: bool = True,
    steps: bool = True,
) -> Checked:
    """Read an experiment file and find everything that it names.

    Args:
        path: The file.
        commands: The file that commands are taken from instead.
        executor: What runs the trials instead of what the file says.
        trials: Whether trials are to be run, so that what runs them has to work on this machine.
        steps: Whether steps are, so that they have to.

    Raises:
        ExperimentError: So much is wrong that nothing is left to be checked.
        UsageError: The executor runs no trials.
    """
    submission, found = read(path, commands=commands)
    if submission is None:
        raise ExperimentError(found)
    configured = commands_of(submission)
    pipeline = resolve_pipeline(submission.experiment.pipeline, commands=configured, file=path)
    chosen, notices = choose_executor(pipeline, configured, asked=executor)
    checked = Checked(
        submission=submission,
        commands=configured,
        pipeline=pipeline,
        executor=chosen,
        kinds=agent_kinds(submission),
        problems=found,
        notices=(*submission.notices, *pipeline.notices, *notices),
        trials=trials,
        steps=steps,
    )
    return replace(checked, problems=together(found, _problems(checked)))


def together(first: Iterable[Problem], then: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems of two checks; what one has told of a place the next one need not tell again."""
    told = list(first)
    places = {(problem.file, problem.line, problem.path) for problem in told}
    return (*told, *(one for one in then if (one.file, one.line, one.path) not in places))


def plugin_problem(submission: Submission, error: AgentixError, *, where: str, path: str, options: str) -> Problem:
    """A plugin that cannot be had, or an option of it that is wrong, as a problem of the file.

    Args:
        submission: The file.
        error: As loading the plugin raised it.
        where: What loading was told of where the user named the plugin.
        path: Where the file names it.
        options: Where the file gives its options.
    """
    wrong = getattr(error, "where", None)
    text = error.message
    if isinstance(wrong, str):
        text = text.removeprefix(f"{wrong}: ")
        if wrong.startswith(f"{where}."):
            path = f"{options}.{wrong.removeprefix(f'{where}.')}"
    text = text.removeprefix(f"{where}: ")
    return problem(submission, path, with_hint(text, error.hint))


def _problems(checked: Checked) -> Iterator[Problem]:
    submission = checked.submission
    for step in checked.pipeline.problems:
        if submission.unread and step.unknown and step.near is None:
            continue
        yield problem(submission, step.path, step.message, near=step.near)
    for found in check_commands(checked.commands, names=_used(checked)):
        yield problem(submission, f"commands.{found.command}.{found.key}", found.message)
    others = [step for step in checked.pipeline.steps if step is not checked.pipeline.executor]
    running = (*((checked.executor,) if checked.trials else ()), *(others if checked.steps else ()))
    yield from own_problems(submission, checked.commands, running, checked.executor)
    yield from _agents(checked)
    yield from _datasets(submission)


def _used(checked: Checked) -> set[str]:
    """The commands that will be run on this machine, so that their programs have to be there."""
    steps = (*(checked.pipeline.steps if checked.steps else ()), *((checked.executor,) if checked.trials else ()))
    used = {step.command.name for step in steps if step.command is not None}
    used |= {step.fix.name for step in steps if step.fix is not None}
    for case in checked.submission.experiment.cases:
        used.add(case.fetch or f"source_{case.source}")
    return used & set(checked.commands)


def _agents(checked: Checked) -> Iterator[Problem]:
    # An executor of its own may know agents that are not installed here.
    for number, kind in enumerate(checked.kinds if checked.native else ()):
        if kind.problem is None or (checked.submission.unread and kind.kind == "unknown" and kind.near is None):
            continue
        where = f"matrix.agents[{number}]"
        said = with_hint(kind.problem, None)
        option, colon, text = said.removeprefix(f"{where}.").partition(": ")
        if said.startswith(f"{where}.") and colon:
            yield problem(checked.submission, f"{where}.options.{option}", text, near=kind.near)
        else:
            yield problem(checked.submission, f"{where}.name", said.removeprefix(f"{where}: "), near=kind.near)


def _datasets(submission: Submission) -> Iterator[Problem]:
    installed = [info.name for info in list_plugins("dataset")]
    for number, case in enumerate(submission.experiment.cases):
        where = f"cases[{number}]"
        if case.dataset is None:
            continue
        plain = not any(mark in case.dataset for mark in ":/") and not case.dataset.endswith(".py")
        if plain and case.dataset not in installed:
            message = f"no installed dataset is called {case.dataset!r}"
            near = nearest(case.dataset, installed)
            yield problem(submission, f"{where}.dataset", message, near=near)
        elif case.source == "dataset":
            try:
                load("dataset", case.dataset, case.options, where=where, typed=case.options)
            except AgentixError as error:
                yield plugin_problem(
                    submission, error, where=where, path=f"{where}.dataset", options=f"{where}.options"
                )
