"""Finds task directories: a task, a directory of tasks, or a glob."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from agentix.api import DatasetError
from agentix.plugins.datasets.harbor.task import TASK_FILE

_PARTS_OF_A_TASK = ("instruction.md", "environment", "tests", "solution", "steps")


def find_tasks(paths: Iterable[str]) -> Iterator[Path]:
    """The task directories that the paths stand for: path by path, each in the order of names, none twice.

    Raises:
        DatasetError: A path does not exist, a pattern matches no task, or a directory holds none.
    """
    seen: set[Path] = set()
    for path in paths:
        try:
            directories = _expand(path)
        except OSError as error:
            raise DatasetError(f"{error.filename or path}: cannot be read: {error.strerror}") from error
        for directory in directories:
            place = directory.resolve()
            if place not in seen:
                seen.add(place)
                yield directory


def _expand(path: str) -> list[Path]:
    place = Path(path).expanduser()
    if place.is_dir():
        return _in_directory(place.absolute())
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
    return sorted(tasks, key=os.fsencode)


def _in_directory(directory: Path) -> list[Path]:
    if (directory / TASK_FILE).is_file():
        return [directory]
    tasks = sorted((child for child in directory.iterdir() if (child / TASK_FILE).is_file()), key=os.fsencode)
    if tasks:
        return tasks
    parts = [part for part in _PARTS_OF_A_TASK if (directory / part).exists()]
    if parts:
        raise DatasetError(f"{directory}: has {', '.join(parts)} but no {TASK_FILE}, so it is no task")
    raise DatasetError(f"{directory}: neither it nor a directory right below it has a {TASK_FILE}")
