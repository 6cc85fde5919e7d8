"""The fixed list of trials: case × agent × model × index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from agentix.api import Case, trial_id
from agentix.cli.api import MOST_TRIALS
from agentix.plugins.experiments.documents import (
    AgentSpec,
    ExperimentError,
    LLMSpec,
    Problem,
    Submission,
    nearest,
    problem,
)
from agentix.plugins.experiments.plan.agents import agent_kinds


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """One trial that is to be run."""

    trial_id: str
    case: Case
    agent: AgentSpec
    llm: LLMSpec | None
    index: int
    """From 1, among the trials of this case, agent and model."""
    position: int
    """From 0, in the plan."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that will be run, in order."""

    trials: tuple[PlannedTrial, ...]
    line: str
    """The plan in one line."""
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Cell:
    """An agent with one model, or without."""

    position: int
    agent: AgentSpec
    llm: LLMSpec | None
    trials: int


def make_plan(submission: Submission, cases: Sequence[Case], *, deterministic: Iterable[bool] | None = None) -> Plan:
    """Lay out the trials of an experiment: the same cases and the same matrix always give the same.

    Args:
        submission: The experiment file.
        cases: Its cases, in order.
        deterministic: For each agent of the matrix, whether one run of it says everything; by default, what the
            installed agents say of themselves.

    Raises:
        ExperimentError: Two trials would have one id, there are more than a run may have, or there is no such model.
    """
    matrix = submission.experiment.matrix
    notices: tuple[str, ...] = ()
    if deterministic is None:
        kinds = agent_kinds(submission)
        deterministic = [kind.deterministic for kind in kinds]
        notices = tuple(dict.fromkeys(kind.notice for kind in kinds if kind.notice is not None))
    once: tuple[bool, ...] = tuple(deterministic)
    wrong: list[Problem] = []
    cells = list(_cells(submission, once, wrong))
    if found := (*wrong, *_too_many(submission, cases, cells), *_collisions(submission, cases, cells)):
        raise ExperimentError(found)
    trials: list[PlannedTrial] = []
    for case in cases:
        for cell in cells:
            stem, first = _stem(case, cell), len(trials) - 1
            trials.extend(
                PlannedTrial(f"{stem}{index}", case, cell.agent, cell.llm, index, first + index)
                for index in range(1, cell.trials + 1)
            )
    line = f"matrix: {_count(len(trials), 'trial')} across {_count(len(cases), 'case')}"
    if matrix.trials > 1 or len(matrix.llm_specs) > 1:
        alone = dict.fromkeys(
            agent.id or agent.name
            for agent, is_once in zip(matrix.agents, once, strict=True)
            if is_once and not agent.trials
        )
        line += f" ({', '.join(alone)} ran once: deterministic)" if alone else ""
    return Plan(trials=tuple(trials), line=line, notices=notices)


def id_problems(submission: Submission, cases: Sequence[Case], *, deterministic: Iterable[bool]) -> tuple[Problem, ...]:
    """What is wrong with the trials as such: more than one with an id, or more than a run may have.

    Args:
        submission: The experiment file.
        cases: Those of its cases that are known.
        deterministic: As for `make_plan`.
    """
    # Models that there are not are told where the file is read.
    cells = list(_cells(submission, tuple(deterministic), []))
    return (*_too_many(submission, cases, cells), *_collisions(submission, cases, cells))


def _too_many(submission: Submission, cases: Sequence[Case], cells: Sequence[_Cell]) -> tuple[Problem, ...]:
    if (planned := len(cases) * sum(cell.trials for cell in cells)) <= MOST_TRIALS:
        return ()
    most = max(cells, key=lambda cell: cell.trials)
    path = f"matrix.agents[{most.position}].trials" if most.agent.trials else "matrix.trials"
    message = f"{most.trials} for each case make {planned} trials in all, and a run has at most {MOST_TRIALS}"
    return (problem(submission, path, message),)


def _cells(submission: Submission, once: Sequence[bool], problems: list[Problem]) -> Iterator[_Cell]:
    matrix = submission.experiment.matrix
    for position, (agent, is_once) in enumerate(zip(matrix.agents, once, strict=True)):
        if agent.llm_spec is not None:
            names, path = [agent.llm_spec], f"matrix.agents[{position}].llm_spec"
        else:
            names, path = [] if is_once else list(matrix.llm_specs), "matrix.llm_specs"
        trials = agent.trials or (1 if is_once else matrix.trials)
        for name in names:
            if name in submission.llm_specs:
                yield _Cell(position, agent, submission.llm_specs[name], trials)
            else:
                problems.append(_unknown_model(submission, path, name))
        if not names:
            yield _Cell(position, agent, None, trials)


def _stem(case: Case, cell: _Cell) -> str:
    """The id of a trial up to its index."""
    others = (cell.agent.id or cell.agent.name, *(() if cell.llm is None else (cell.llm.name,)))
    return trial_id(case.name, *others, index=0)[:-1]


def _collisions(submission: Submission, cases: Sequence[Case], cells: Sequence[_Cell]) -> tuple[Problem, ...]:
    # An index holds no dash, so ids are different where the parts before it are. Ids name directories, and not every
    # disk that these land on tells `A` from `a`.
    seen: dict[str, tuple[Case, _Cell]] = {}
    problems: dict[str, Problem] = {}
    for case in cases:
        for cell in cells:
            stem = _stem(case, cell)
            other, other_cell = seen.setdefault(stem.casefold(), (case, cell))
            if other is case and other_cell is cell:
                continue
            if other is not case and other_cell is cell:
                path = "cases"
                what = f"the cases {_described(other)} and {_described(case)}"
                hint = (
                    f"give one of them an `id`; both are called {case.name!r}"
                    if other.name == case.name
                    else "give one an `id`"
                )
            elif other is case:
                path = f"matrix.agents[{cell.position}]"
                what = f"the agents {_use(other_cell)} and {_use(cell)}"
                hint = "give one of them an `id`"
            else:
                path = "cases"
                what = f"{_described(other)} with {_use(other_cell)} and {_described(case)} with {_use(cell)}"
                hint = "give one of the cases or agents an `id`"
            # That the same agents meet the same cases twice was said already.
            if what not in problems and not (problems and other is not case and other_cell is not cell):
                like = _stem(other, other_cell)
                ids = f"one id, {stem}1" if like == stem else f"ids that differ in case only, {like}1 and {stem}1"
                message = f"{what} would have trials with {ids}; {hint}"
                problems[what] = problem(submission, path, message)
    return tuple(problems.values())


def _described(case: Case) -> str:
    pin = " at ".join(case.pin[key] for key in ("repo", "ref") if key in case.pin)
    return f"{case.label!r}" + (f" ({pin})" if pin else "")


def _use(cell: _Cell) -> str:
    name = cell.agent.id or cell.agent.name
    return repr(name) if cell.llm is None else f"{name!r} with {cell.llm.name!r}"


def _unknown_model(submission: Submission, path: str, name: str) -> Problem:
    near = nearest(name, submission.llm_specs)
    return problem(submission, path, f"there is no LLMSpec {name!r}", near=near)


def _count(number: int, word: str) -> str:
    return f"{number:d} {word}{'' if number == 1 else 's'}"
