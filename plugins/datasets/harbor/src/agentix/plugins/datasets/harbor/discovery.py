"""Finds task directories: a task, a directory of tasks, or a glob."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from agentix.api import DatasetError
from agentix.plugins.datasets.harbor.task import TASK_FILE

_PARTS_OF_A_TASK = ("instruction.md", "environment", "tests", "solution", "steps")


def find_tasks(paths: Iterable[str], *, left_out: Callable[[Path], None] = lambda place: None) -> Iterator[Path]:
    """The task directories that the paths stand for: path by path, each in the order of names, none twice.

    Args:
        paths: What the user has given.
        left_out: Told each directory beside tasks that is none; those whose name begins with a dot or `_` do not count.

    Raises:
        DatasetError: A path does not exist, a pattern matches no task, or a directory holds none.
    """
    seen: set[Path] = set()
    for path in paths:
        try:
            directories = _expand(path, left_out)
        except OSError as error:
            raise DatasetError(f"{error.filename or path}: cannot be read: {error.strerror}") from error
        for directory in directories:
            place = directory.resolve()
            if place not in seen:
                seen.add(place)
                yield directory


def _expand(path: str, left_out: Callable[[Path], None]) -> list[Path]:
    place = Path(path).expanduser()
    if place.is_dir():
        return _in_directory(place.absolute(), left_out)
    if place.exists():
        hint = f"Give {place.parent}." if place.name == TASK_FILE else None
        raise DatasetError(f"{path}: is a file, and a task is a directory", hint=hint)
    if not glob.has_magic(path):
        raise DatasetError(f"{path}: there is no such directory")
    # pathlib cannot expand a pattern that starts at the root.
    matches = [Path(match) for match in glob.iglob(str(place), recursive=True)]  # noqa: PTH207
    tasks = [match.absolute() for match in matches if (match / TASK_FILE).is_file()]
    if not tasks:
        found = f"none of its {len(matches)} matches has a {TASK_FILE}" if matches else "nothing matches it"
        raise DatasetError(f"{path}: {found}")
    _tell([match.absolute() for match in matches], tasks, left_out)
    return sorted(tasks, key=os.fsencode)


def _in_directory(directory: Path, left_out: Callable[[Path], None]) -> list[Path]:
    if (directory / TASK_FILE).is_file():
        return [directory]
    children = sorted(directory.iterdir(), key=os.fsencode)
    tasks = [child for child in children if (child / TASK_FILE).is_file()]
    if tasks:
        _tell(children, tasks, left_out)
        return tasks
    parts = [part for part in _PARTS_OF_A_TASK if (directory / part).exists()]
    if parts:
        raise DatasetError(f"{directory}: has {', '.join(parts)} but no {TASK_FILE}, so it is no task")
    raise DatasetError(f"{directory}: neither it nor a directory right below it has a {TASK_FILE}")


def _tell(others: list[Path], tasks: list[Path], left_out: Callable[[Path], None]) -> None:
    found = set(tasks)
    around = {*tasks, *(parent for task in tasks for parent in task.parents)}
    for place in sorted(others, key=os.fsencode):
        inside = not found.isdisjoint(place.parents)
        if place not in around and not inside and not place.name.startswith((".", "_")) and place.is_dir():
            left_out(place)
