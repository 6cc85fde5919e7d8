"""Repairs: what a check rejected is corrected on a copy, and only with consent in the place that it came from."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import anyio
import anyio.to_thread

from agentix.api import AgentixError, Case, HostError, StepContext, content_hash
from agentix.plugins.experiments.cases import with_case
from agentix.plugins.experiments.cases.copying import copy_tree
from agentix.plugins.experiments.commands import Command
from agentix.plugins.experiments.gate.setting import GateSetting, case_directory
from agentix.plugins.experiments.steps import ResolvedStep
from agentix.plugins.experiments.steps.command_step import environment
from agentix.plugins.experiments.steps.templates import variables

_TEXT = 32_000
"""Characters of a rejection that fit into a variable; the file holds all."""


class RepairFailed(AgentixError):
    """The repair did not do its work."""


async def repair(case: Case, step: ResolvedStep, rejection: str, *, attempt: int, setting: GateSetting) -> Case:
    """Let a command repair a copy of the case.

    The command gets `CASE_DIR`, which is the copy, `REJECTION` and `REJECTION_FILE`, `REJECTED_BY` and `ATTEMPT`.

    Args:
        case: The case as it was rejected.
        step: The step that rejected it.
        rejection: Why.
        attempt: Which round it is, from 1.
        setting: Of the gate.

    Returns:
        The case with its new content, which may be the same.

    Raises:
        RepairFailed: The command failed, or what it left is no case.
    """
    assert step.fix is not None
    if case.directory is None or setting.runner is None:
        raise RepairFailed("only a case that is a directory can be repaired")
    work_dir = setting.directory(case, step) / f"repair-{attempt}"
    copy = work_dir / "case"
    note = work_dir / "rejection.txt"

    def prepare(source: Path) -> None:
        shutil.rmtree(work_dir, ignore_errors=True)
        work_dir.mkdir(parents=True)
        copy_tree(source, copy)
        note.write_text(rejection + "\n", encoding="utf-8", errors="backslashreplace")

    await anyio.to_thread.run_sync(prepare, case.directory)
    told = {
        "CASE_DIR": str(copy),
        "REJECTION": rejection.replace("\0", "")[:_TEXT],
        "REJECTION_FILE": str(note),
        "REJECTED_BY": step.label,
        "ATTEMPT": str(attempt),
    }
    await _run(step.fix, setting.context(case, work_dir), told, setting=setting)
    try:
        return await with_case(case, copy, snapshots=setting.snapshots)
    except AgentixError as error:
        if isinstance(error, HostError):
            raise
        raise RepairFailed(f"what {step.fix.name} left is no case: {error.message}") from error


async def _run(command: Command, ctx: StepContext, told: dict[str, str], *, setting: GateSetting) -> None:
    assert setting.runner is not None
    result = await setting.runner.run(
        command,
        variables=environment(ctx, {}) | told,
        template=variables(ctx) | {"LocalPath": told["CASE_DIR"]},
        log=ctx.work_dir / "command.log",
        secrets=setting.secrets,
    )
    if not result.ok:
        raise RepairFailed(result.describe())


_MARK = "repaired.json"


async def remember(original: Case, repaired: Case, *, setting: GateSetting) -> None:
    """Note what a case was repaired to, for when the run is resumed: another repair might end in other bytes."""
    place = case_directory(setting.run_dir, original)
    data = json.dumps({"from": original.sha256, "to": repaired.sha256}) + "\n"

    def write() -> None:
        place.mkdir(parents=True, exist_ok=True)
        temp = place / f".{_MARK}.tmp"
        temp.write_text(data, encoding="ascii")
        temp.replace(place / _MARK)

    await anyio.to_thread.run_sync(write)


def recalls(steps: Iterable[ResolvedStep], *, regate: bool) -> bool:
    """Whether a gate takes cases as it has repaired them before: one that repairs, and does not start anew."""
    return not regate and any(step.fix is not None for step in steps)


async def recall(case: Case, *, run_dir: Path, kept: Path, snapshots: Path) -> Case:
    """The case as a run has repaired it before, or as it is.

    Args:
        case: As it came.
        run_dir: The run's.
        kept: Where the run's own snapshots are.
        snapshots: Where the snapshot of what it was repaired to is taken.
    """
    try:
        noted = json.loads(await anyio.Path(case_directory(run_dir, case) / _MARK).read_bytes())
        if noted["from"] != case.sha256:
            return case
        repaired = await with_case(case, kept / str(noted["to"]), snapshots=snapshots)
    except (OSError, ValueError, KeyError, TypeError, AgentixError):
        return case
    return repaired if repaired.sha256 == noted["to"] else case


async def write_back(original: Case, repaired: Case) -> None:
    """Give a local case's own directory the repaired content; its `.git` stays.

    Raises:
        RepairFailed: The case did not come from a directory of this machine, or that was edited meanwhile.
    """
    if original.source != "local" or "path" not in original.pin or repaired.directory is None:
        raise RepairFailed(f"a case from {original.source} has no directory here that could be written to")
    await anyio.to_thread.run_sync(_synchronise, repaired.directory, Path(original.pin["path"]), original.sha256)


def _synchronise(source: Path, target: Path, expected: str | None) -> None:
    try:
        if content_hash(target) != expected:
            raise RepairFailed(f"{target} was edited while it was checked, and is left as it is")
        _mirror(source, target, top=True)
    except OSError as error:
        raise RepairFailed(f"{target} cannot be written: {error.strerror or error}") from error


def _mirror(source: Path, target: Path, *, top: bool = False) -> None:
    wanted = {entry.name: entry for entry in source.iterdir()}
    for entry in target.iterdir():
        if entry.name not in wanted and not (top and entry.name == ".git"):
            _remove(entry)
    for name, entry in wanted.items():
        place = target / name
        if entry.is_dir() and not entry.is_symlink():
            if place.is_symlink() or not place.is_dir():
                _remove(place)
                place.mkdir()
            _mirror(entry, place)
        elif not _same(entry, place):
            _replace(entry, place)


def _same(entry: Path, place: Path) -> bool:
    if entry.is_symlink() or place.is_symlink():
        return entry.is_symlink() and place.is_symlink() and entry.readlink() == place.readlink()
    return place.is_file() and _executable(entry) == _executable(place) and entry.read_bytes() == place.read_bytes()


def _replace(entry: Path, place: Path) -> None:
    temp = place.with_name(f".{uuid4().hex}.tmp")
    try:
        if entry.is_symlink():
            temp.symlink_to(entry.readlink())
        else:
            shutil.copyfile(entry, temp)
            # Of the mode only this bit is content; the rest is the directory owner's own.
            mode = stat.S_IMODE(place.stat().st_mode) if place.is_file() and not place.is_symlink() else 0o644
            temp.chmod(mode | 0o111 if _executable(entry) else mode & ~0o111)
        if place.is_dir() and not place.is_symlink():
            _remove(place)
        temp.replace(place)
    finally:
        with suppress(FileNotFoundError):
            temp.unlink()


def _executable(path: Path) -> bool:
    return bool(os.stat(path).st_mode & stat.S_IXUSR)  # noqa: PTH116


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
