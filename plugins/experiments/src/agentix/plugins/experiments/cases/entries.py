"""The entries of a file, and the cases that they stand for as far as these are found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from agentix.api import AgentixError, Case, load
from agentix.plugins.experiments.cases.datasets import NoInstance, dataset_cases
from agentix.plugins.experiments.cases.finding import NoCase, shown
from agentix.plugins.experiments.cases.local import Located, locate
from agentix.plugins.experiments.cases.remote import Unfetchable, check_remote, repository_name
from agentix.plugins.experiments.commands import Command
from agentix.plugins.experiments.documents import CaseSpec, ExperimentError, Problem, Submission, problem

DEFAULT_DATASET = "harbor"


@dataclass
class Found:
    """A case before its content is fixed."""

    entry: int
    case: Case
    directory: Path | None


@dataclass
class Entries:
    """What is known of the entries of a file so far."""

    submission: Submission
    problems: list[Problem] = field(default_factory=list)
    found: dict[int, list[Found]] = field(default_factory=dict)

    def spec(self, entry: int) -> CaseSpec:
        """An entry, by its position."""
        return self.submission.experiment.cases[entry]

    def wrong(self, entry: int, key: str, message: str, *, near: str | None = None) -> None:
        """Note what is wrong with a key of an entry."""
        self.problems.append(problem(self.submission, f"cases[{entry}].{key}", message, near=near))

    def raise_problems(self) -> None:
        """Tell what was noted.

        Raises:
            ExperimentError: There is something.
        """
        if self.problems:
            raise ExperimentError(self.problems)


def may_be_fetched(state: Entries, entry: int, commands: Mapping[str, Command], path: str | None) -> bool:
    """Whether an entry of a repository can be fetched, as far as that is known without trying.

    Args:
        state: Is told what keeps it from that.
        entry: Its position.
        commands: The configured commands.
        path: What the `PATH` of commands is.
    """
    try:
        check_remote(state.spec(entry), commands, path, file=state.submission.path)
    except Unfetchable as error:
        state.wrong(entry, error.key, str(error))
        return False
    return True


def find_here(state: Entries, entry: int) -> None:
    """Find the cases of a local entry, or of a dataset."""
    spec = state.spec(entry)
    try:
        if spec.source == "dataset":
            state.found[entry] = [
                Found(entry, case, directory)
                for case, directory in dataset_cases(spec, where=f"cases[{entry}].dataset")
            ]
            if not state.found[entry]:
                state.wrong(entry, "dataset", f"the dataset {spec.dataset} has no instances")
        else:
            add(state, entry, locate(spec.path or "", file=state.submission.path), {})
    except NoInstance as error:
        state.wrong(entry, f"ids[{error.position}]", str(error), near=error.near)
    except NoCase as error:
        state.wrong(entry, "path", f"{spec.path}: {error}")
    except AgentixError as error:
        state.wrong(entry, "dataset", str(error).removeprefix(f"cases[{entry}].dataset: "))
    check_entry(state, entry)


def add(state: Entries, entry: int, places: tuple[Located, ...], pin: dict[str, str]) -> None:
    """Add the cases that are in some directories."""
    spec = state.spec(entry)
    dataset = spec.dataset or DEFAULT_DATASET
    for place in places:
        name = Path(place.label).name
        if name in ("", ".."):
            name = repository_name(pin["repo"]) if pin else place.directory.name
        where = {"path": shown(place.label)} if pin else {"path": shown(str(place.directory))}
        case = Case(
            name=spec.id or shown(name),
            label=shown(place.label),
            source=spec.source,
            dataset=dataset,
            instance={"instance_id": spec.id or shown(name)},
            options=dict(spec.options),
            pin={**pin, **where},
        )
        state.found.setdefault(entry, []).append(Found(entry, case, place.directory))
    # Its options are wrong now or never: the content of the case plays no part.
    named = f"cases[{entry}].dataset"
    try:
        options = {**spec.options, "path": str(places[0].directory)}
        load("dataset", dataset, options, where=named, typed=options)
    except AgentixError as error:
        key = "dataset" if spec.dataset is not None else "options" if spec.options else "path"
        told = str(getattr(error, "where", ""))
        option = told.removeprefix(f"{named}.")
        if told != option and option.split(".")[0] in spec.options:
            key = f"options.{option}"
        state.wrong(entry, key, str(error).removeprefix(f"{told}: ").removeprefix(f"{named}: "))


def check_entry(state: Entries, entry: int) -> None:
    """An id and a hash are of one case."""
    spec, found = state.spec(entry), state.found.get(entry, [])
    for key in ("id", "sha256"):
        if getattr(spec, key) is not None and len(found) > 1:
            state.wrong(entry, key, f"is of one case, and this entry stands for {len(found)}")
    if spec.id is not None and spec.source == "dataset" and len(found) == 1:
        found[0].case = replace(found[0].case, name=spec.id)


def tell_apart(found: list[Found]) -> None:
    """Records and numbers know a case by its label, so one that is there twice is followed by the case's name."""
    taken: set[str] = set()
    for one in found:
        if one.case.label in taken:
            one.case = replace(one.case, label=f"{one.case.label} ({one.case.name})")
        taken.add(one.case.label)
