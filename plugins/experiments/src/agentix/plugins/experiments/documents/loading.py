"""Read an experiment file with all that it includes, strictly."""

from __future__ import annotations

import hashlib
from pathlib import Path

from agentix.plugins.experiments.documents.including import CommandReader, CommandSet
from agentix.plugins.experiments.documents.models import CaseSpec, Experiment, ExperimentInPart, LLMSpec, Submission
from agentix.plugins.experiments.documents.nodes import MappingNode, Node
from agentix.plugins.experiments.documents.places import Places
from agentix.plugins.experiments.documents.problems import ExperimentError, Problem
from agentix.plugins.experiments.documents.reading import KINDS, documents_of, read_bytes
from agentix.plugins.experiments.documents.rules import experiment_problems, llm_problems, problem_at
from agentix.plugins.experiments.documents.shorthand import experiment_written_out, llm_written_out
from agentix.plugins.experiments.documents.validating import validated


def load(path: Path, *, commands: Path | None = None) -> Submission:
    """Read an experiment file.

    Args:
        path: The file.
        commands: The file that commands are taken from instead; a submission that brings its own is then refused.

    Raises:
        ExperimentError: Something is wrong with it; all of it is told.
    """
    submission, problems = read(path, commands=commands)
    if problems or submission is None:
        raise ExperimentError(problems)
    return submission


def read(path: Path, *, commands: Path | None = None) -> tuple[Submission | None, tuple[Problem, ...]]:
    """Read an experiment file, whatever is wrong with it.

    Args:
        path: The file.
        commands: As for `load`.

    Returns:
        What is left of it without all that is wrong, to be checked further but never run (`None` where that is
        nothing), and the problems.
    """
    problems: list[Problem] = []
    text = read_bytes(path, problems)
    documents = documents_of(path, text, problems) if text is not None else []
    by_kind = {kind: [one.node for one in documents if one.kind == kind] for kind in KINDS}
    found = _commands(by_kind["Commands"], path, commands, problems)
    llm_specs = _llm_specs(by_kind["LLMSpec"], problems)
    experiments = by_kind["Experiment"]
    if len(experiments) > 1:
        message = f"there is an Experiment in line {experiments[0].line} already; a file holds one"
        problems.extend(problem_at(node, (), message) for node in experiments[1:])
    if not experiments and not problems:
        problems.append(Problem(file=path, line=None, path="", message="holds no Experiment document"))
    readings = [
        _experiment(node, problems, llm_specs=set(llm_specs), commands=set(found.commands), unread=found.unread)
        for node in experiments
    ]
    experiment, node = readings[0] if readings else (None, None)
    if text is None or experiment is None:
        return None, tuple(problems)
    places = Places(
        experiment=node,
        llm_specs={name: node for name, (_, node) in llm_specs.items()},
        commands={name: one.document for name, one in found.commands.items()},
    )
    submission = Submission(
        path=path,
        sha256=hashlib.sha256(text).hexdigest(),
        text=text,
        experiment=experiment,
        llm_specs={name: spec for name, (spec, _) in llm_specs.items() if spec is not None},
        commands=found.model(),
        unread=found.unread,
        places=places,
    )
    return submission, tuple(problems)


def problem(submission: Submission, path: str, message: str, *, near: str | None = None) -> Problem:
    """A problem with what stands at a path of a submission.

    Args:
        submission: What was read.
        path: As for `Submission.place`.
        message: What is wrong with it.
        near: The valid name that may have been meant.
    """
    place = submission.place(path)
    return Problem(file=place.file, line=place.line, path=place.path, message=message, nearest=near)


def _commands(documents: list[MappingNode], path: Path, trusted: Path | None, problems: list[Problem]) -> CommandSet:
    reader = CommandReader(problems)
    if trusted is not None:
        for document in documents:
            message = f"the commands are taken from {trusted}; a submission may not bring its own"
            problems.append(problem_at(document, (), message))
        return reader.read_file(trusted)
    for document in documents[1:]:
        message = f"there is a Commands document in line {documents[0].line} already; a file holds one"
        problems.append(problem_at(document, (), message))
    sets = [reader.read(document, file=path) for document in documents]
    return sets[0] if sets else CommandSet()


def _llm_specs(documents: list[MappingNode], problems: list[Problem]) -> dict[str, tuple[LLMSpec | None, MappingNode]]:
    found: dict[str, tuple[LLMSpec | None, MappingNode]] = {}
    for document in documents:
        node = llm_written_out(document, problems)
        spec, _ = validated(LLMSpec, node, problems, what="an LLMSpec")
        problems.extend(llm_problems(node))
        entry = node.get("name")
        name = entry.node.data() if entry is not None else None
        if not isinstance(name, str):
            continue
        if name in found:
            message = f"another LLMSpec has this name, in line {found[name][1].line}"
            problems.append(problem_at(node, ("name",), message))
        found.setdefault(name, (spec, node))
    return found


def _experiment(
    document: MappingNode, problems: list[Problem], *, llm_specs: set[str], commands: set[str], unread: bool
) -> tuple[Experiment | None, Node]:
    defaults = document.get("case_defaults")
    if defaults is not None:
        validated(CaseSpec, defaults.node, problems, what="case_defaults", prefix=("case_defaults",))
    node = experiment_written_out(document, problems)
    found, left = validated(Experiment, node, problems, what="an Experiment")
    problems.extend(experiment_problems(node, llm_specs=llm_specs, commands=commands, unread=unread))
    # What is needed and not there has been told.
    return (found, left) if found is not None else validated(ExperimentInPart, node, [], what="an Experiment")
