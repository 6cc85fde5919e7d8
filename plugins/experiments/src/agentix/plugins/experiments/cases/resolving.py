"""From the entries of a file to cases: fetched, copied, hashed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import anyio.to_thread

from agentix.api import AgentixError, Case, HostError, load
from agentix.plugins.experiments.cases.datasets import NoInstance, dataset_cases
from agentix.plugins.experiments.cases.fetching import FetchFailed, fetch
from agentix.plugins.experiments.cases.finding import CASE_FILE, NoCase, shown
from agentix.plugins.experiments.cases.local import Located, locate
from agentix.plugins.experiments.cases.remote import (
    Group,
    Unfetchable,
    check_remote,
    groups,
    located,
    repository_name,
)
from agentix.plugins.experiments.cases.snapshots import snapshotted, take_snapshot
from agentix.plugins.experiments.cases.workspace import workspace
from agentix.plugins.experiments.commands import CommandRunner, commands_of
from agentix.plugins.experiments.documents import CaseSpec, ExperimentError, Problem, Submission, problem

_FETCHES = 4
_COPIES = 4
_DEFAULT_DATASET = "harbor"


@dataclass
class _Found:
    """A case before its content is fixed."""

    entry: int
    case: Case
    directory: Path | None


@dataclass
class _Resolving:
    submission: Submission
    problems: list[Problem] = field(default_factory=list)
    found: dict[int, list[_Found]] = field(default_factory=dict)

    def spec(self, entry: int) -> CaseSpec:
        return self.submission.experiment.cases[entry]

    def wrong(self, entry: int, key: str, message: str, *, near: str | None = None) -> None:
        self.problems.append(problem(self.submission, f"cases[{entry}].{key}", message, near=near))

    def raise_problems(self) -> None:
        if self.problems:
            raise ExperimentError(self.problems)


async def resolve(
    submission: Submission,
    *,
    runner: CommandRunner,
    snapshots: Path,
    say: Callable[[str], None],
    pause_s: float = 1.0,
) -> tuple[Case, ...]:
    """Fetch the cases of an experiment and fix their content.

    Args:
        submission: The experiment file.
        runner: Runs git, and the commands that fetch.
        snapshots: Where snapshots are kept; nothing else should write there.
        say: Is told a line for each case.
        pause_s: Seconds before fetching is tried again; doubled every time.

    Returns:
        The cases, in the order of the file; those of a pattern in the order of their names.

    Raises:
        ExperimentError: With everything that is wrong with the entries.
        HostError: A snapshot cannot be written.
    """
    state = _Resolving(submission)
    commands = commands_of(submission)
    remote = []
    for entry, spec in enumerate(submission.experiment.cases):
        if spec.source in ("git", "hf"):
            try:
                check_remote(spec, commands, runner.path)
                remote.append(entry)
            except Unfetchable as error:
                state.wrong(entry, error.key, str(error))
        else:
            await anyio.to_thread.run_sync(_find_here, state, entry)
    # What is wrong without fetching is told without fetching.
    state.raise_problems()
    with workspace(snapshots) as work:
        await _fetch_all(state, groups(submission, commands, remote), work, runner=runner, pause_s=pause_s)
        state.raise_problems()
        cases = await _fix_all(state, snapshots, work, say=say)
        state.raise_problems()
    return cases


def _find_here(state: _Resolving, entry: int) -> None:
    """Find the cases of a local entry, or of a dataset."""
    spec = state.spec(entry)
    try:
        if spec.source == "dataset":
            state.found[entry] = [
                _Found(entry, case, directory)
                for case, directory in dataset_cases(spec, where=f"cases[{entry}].dataset")
            ]
            if not state.found[entry]:
                state.wrong(entry, "dataset", f"the dataset {spec.dataset} has no instances")
        else:
            _add(state, entry, locate(spec.path or "", file=state.submission.path), {})
    except NoInstance as error:
        state.wrong(entry, f"ids[{error.position}]", str(error), near=error.near)
    except NoCase as error:
        state.wrong(entry, "path", f"{spec.path}: {error}")
    except AgentixError as error:
        state.wrong(entry, "dataset", str(error).removeprefix(f"cases[{entry}].dataset: "))
    _check_entry(state, entry)


def _add(state: _Resolving, entry: int, places: tuple[Located, ...], pin: dict[str, str]) -> None:
    spec = state.spec(entry)
    dataset = spec.dataset or _DEFAULT_DATASET
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
        state.found.setdefault(entry, []).append(_Found(entry, case, place.directory))
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


def _check_entry(state: _Resolving, entry: int) -> None:
    """An id and a hash are of one case."""
    spec, found = state.spec(entry), state.found.get(entry, [])
    for key in ("id", "sha256"):
        if getattr(spec, key) is not None and len(found) > 1:
            state.wrong(entry, key, f"is of one case, and this entry stands for {len(found)}")
    if spec.id is not None and spec.source == "dataset" and len(found) == 1:
        found[0].case = replace(found[0].case, name=spec.id)


async def _fetch_all(
    state: _Resolving, needed: tuple[Group, ...], work: Path, *, runner: CommandRunner, pause_s: float
) -> None:
    limiter = anyio.CapacityLimiter(_FETCHES)

    async def one(number: int, group: Group) -> None:
        async with limiter:
            try:
                fetched = await fetch(
                    group.fetcher,
                    group.wanted,
                    work / f"fetch-{number}",
                    runner=runner,
                    max_attempts=state.submission.commands.max_attempts,
                    pause_s=pause_s,
                )
            except FetchFailed as error:
                for entry in group.entries:
                    state.wrong(entry, error.key, str(error), near=error.near)
                return
        pin = group.wanted.pin | ({} if fetched.commit is None else {"commit": fetched.commit})
        for entry in group.entries:
            spec = state.spec(entry)
            try:
                _add(state, entry, await anyio.to_thread.run_sync(located, fetched, spec), pin)
            except NoCase as error:
                at = "" if spec.ref is None else f" at {spec.ref}"
                state.wrong(entry, "path", f"{spec.path or 'the whole'} in {spec.repo}{at}: {error}")
            _check_entry(state, entry)

    failed: HostError | None = None

    async def guarded(number: int, group: Group) -> None:
        nonlocal failed
        try:
            await one(number, group)
        except HostError as error:
            failed = failed or error

    async with anyio.create_task_group() as tasks:
        for number, group in enumerate(needed):
            tasks.start_soon(guarded, number, group)
    if failed is not None:
        raise failed


async def _fix_all(state: _Resolving, snapshots: Path, work: Path, *, say: Callable[[str], None]) -> tuple[Case, ...]:
    found = [one for entry in sorted(state.found) for one in state.found[entry]]
    _tell_apart(found)
    fixed: list[Case | None] = [None] * len(found)
    remarks: dict[int, tuple[str, ...]] = {}
    failed: HostError | None = None
    limiter = anyio.CapacityLimiter(_COPIES)

    async def fix(number: int, one: _Found) -> None:
        nonlocal failed
        directory = one.directory
        if directory is None or failed is not None:
            fixed[number] = one.case
            return

        def fixing() -> Case:
            digest, place = take_snapshot(directory, snapshots, work=work)
            remarks[number] = tuple(_remarks(one.case, place))
            return snapshotted(one.case, digest, place)

        try:
            fixed[number] = await anyio.to_thread.run_sync(fixing, limiter=limiter)
        except HostError as error:
            failed = failed or error
        except AgentixError as error:
            key = "path" if state.spec(one.entry).path is not None else "source"
            state.wrong(one.entry, key, f"{one.case.label}: {error.message}")

    async with anyio.create_task_group() as tasks:
        for number, one in enumerate(found):
            tasks.start_soon(fix, number, one)
    if failed is not None:
        raise failed
    for number, (one, case) in enumerate(zip(found, fixed, strict=True)):
        if case is None:
            continue
        pin = state.spec(one.entry).sha256
        if pin is not None and case.sha256 != pin:
            state.wrong(one.entry, "sha256", f"the content of {case.label} hashes to {case.sha256}")
        how = f"pinned {case.source}" if pin is not None or "commit" in case.pin else case.source
        digest = "no hash" if case.sha256 is None else case.sha256[:12]
        say(f"case {number + 1}/{len(found)} {case.label} -> {digest} ({how})")
        for remark in remarks.get(number, ()):
            say(f"case {case.label}: {remark}")
    return tuple(case for case in fixed if case is not None)


def _tell_apart(found: list[_Found]) -> None:
    """Records and numbers know a case by its label, so one that is there twice is followed by the case's name."""
    taken: set[str] = set()
    for one in found:
        if one.case.label in taken:
            one.case = replace(one.case, label=f"{one.case.label} ({one.case.name})")
        taken.add(one.case.label)


def _remarks(case: Case, place: Path) -> Iterator[str]:
    """What the user should know of a case's content."""
    if case.dataset == _DEFAULT_DATASET and not (place / CASE_FILE).exists():
        yield f"has no {CASE_FILE}"
    for link in _links_out(place):
        yield f"the link {link} leads out of the case, and what it leads to is not part of it"


def _links_out(directory: Path) -> Iterator[str]:
    for path in sorted(directory.rglob("*")):
        if path.is_symlink():
            target = path.parent / path.readlink()
            inside = Path(*_normal(target.relative_to(directory).parts)) if target.is_relative_to(directory) else None
            if inside is None or ".." in inside.parts:
                yield shown(str(path.relative_to(directory)))


def _normal(parts: tuple[str, ...]) -> tuple[str, ...]:
    kept: list[str] = []
    for part in parts:
        if part == ".." and kept and kept[-1] != "..":
            kept.pop()
        else:
            kept.append(part)
    return tuple(kept)
