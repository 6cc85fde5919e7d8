"""From the entries of a file to cases: fetched, copied, hashed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import anyio.to_thread

from agentix.api import AgentixError, Case, HostError
from agentix.plugins.experiments.cases.entries import (
    DEFAULT_DATASET,
    Entries,
    Found,
    add,
    check_entry,
    find_here,
    may_be_fetched,
    tell_apart,
)
from agentix.plugins.experiments.cases.fetching import FetchFailed, fetch
from agentix.plugins.experiments.cases.finding import CASE_FILE, NoCase, shown
from agentix.plugins.experiments.cases.remote import Group, groups, located
from agentix.plugins.experiments.cases.snapshots import snapshotted, take_snapshot
from agentix.plugins.experiments.cases.workspace import workspace
from agentix.plugins.experiments.commands import CommandRunner, commands_of
from agentix.plugins.experiments.documents import Submission

_FETCHES = 4
_COPIES = 4


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
    state = Entries(submission)
    commands = commands_of(submission)
    remote = []
    for entry, spec in enumerate(submission.experiment.cases):
        if spec.source in ("git", "hf"):
            if may_be_fetched(state, entry, commands, runner.path):
                remote.append(entry)
        else:
            await anyio.to_thread.run_sync(find_here, state, entry)
    # What is wrong without fetching is told without fetching.
    state.raise_problems()
    with workspace(snapshots) as work:
        await _fetch_all(state, groups(submission, commands, remote), work, runner=runner, pause_s=pause_s)
        state.raise_problems()
        cases = await _fix_all(state, snapshots, work, say=say)
        state.raise_problems()
    return cases


async def _fetch_all(
    state: Entries, needed: tuple[Group, ...], work: Path, *, runner: CommandRunner, pause_s: float
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
                add(state, entry, await anyio.to_thread.run_sync(located, fetched, spec), pin)
            except NoCase as error:
                at = "" if spec.ref is None else f" at {spec.ref}"
                state.wrong(entry, "path", f"{spec.path or 'the whole'} in {spec.repo}{at}: {error}")
            check_entry(state, entry)

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


async def _fix_all(state: Entries, snapshots: Path, work: Path, *, say: Callable[[str], None]) -> tuple[Case, ...]:
    found = [one for entry in sorted(state.found) for one in state.found[entry]]
    tell_apart(found)
    fixed: list[Case | None] = [None] * len(found)
    remarks: dict[int, tuple[str, ...]] = {}
    failed: HostError | None = None
    limiter = anyio.CapacityLimiter(_COPIES)

    async def fix(number: int, one: Found) -> None:
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


def _remarks(case: Case, place: Path) -> Iterator[str]:
    """What the user should know of a case's content."""
    if case.dataset == DEFAULT_DATASET and not (place / CASE_FILE).exists():
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
