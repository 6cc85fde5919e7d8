"""Finds the directories that a path of an entry stands for."""

from __future__ import annotations

import glob
import os
from pathlib import Path

CASE_FILE = "task.toml"


class NoCase(Exception):
    """A path stands for nothing that could be run.

    Args:
        message: Why.
        there: Whether there is something at that path.
    """

    def __init__(self, message: str, *, there: bool = True) -> None:
        super().__init__(message)
        self.there = there


def find_cases(root: Path, path: str) -> tuple[str, ...]:
    """The case directories that a path stands for, as paths relative to where it starts, in the order of names.

    A pattern stands for the directories that match it and have a task.toml; a path that exists for itself.

    Args:
        root: Where the path starts.
        path: A directory, or a pattern of `glob`.

    Raises:
        NoCase: There is none.
    """
    whole = root / path
    if not glob.has_magic(path) or whole.is_dir():
        if not os.path.lexists(whole):
            raise NoCase("there is no such directory", there=False)
        if not whole.is_dir():
            hint = f"; give {Path(path).parent}" if whole.name == CASE_FILE else ""
            raise NoCase(f"is no directory, and a case is one{hint}")
        inner = sorted(child.name for child in whole.iterdir() if (child / CASE_FILE).is_file())
        if inner and not (whole / CASE_FILE).exists():
            raise NoCase(f"is a directory of cases, such as {inner[0]}; write {Path(path, '*')} to have all of them")
        return (path.rstrip("/") or path,)
    found = glob.glob(path, root_dir=root, recursive=True)  # noqa: PTH207
    cases = {match.rstrip("/") or match for match in found if (root / match / CASE_FILE).is_file()}
    if not cases and not found:
        raise NoCase("nothing matches it", there=False)
    if not cases:
        raise NoCase(f"no directory that matches it has a {CASE_FILE}; it matches {len(found)} of other kinds")
    return tuple(sorted(cases, key=os.fsencode))


def literal_prefix(path: str) -> str:
    """The directory that everything which a path stands for is in; empty for the root."""
    parts = []
    for part in Path(path).parts:
        if glob.has_magic(part):
            break
        parts.append(part)
    return "/".join(parts)


def shown(name: str) -> str:
    """A name of a file as text that can be written anywhere."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
