"""Where a report may go, and getting it there whole."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import TextIO

from agentix.api import RUN_NAMES

RUN_KEYS = ("experiment", "run_id", "created_at")
"""What tells a run from every other one."""

_TAKEN = RUN_NAMES | {"archives", "dataset"}


def target(run_dir: Path, dest: str) -> Path:
    """The file that `dest` names.

    Raises:
        ValueError: It is relative and leads out, is a file or a directory of the run itself, or is no file.
    """
    root = run_dir.resolve()
    path = Path(os.path.normpath(root / dest))
    if path.is_relative_to(root) or not Path(dest).is_absolute():
        free_place(PurePath(os.path.relpath(path, root)), dest)
    if path.exists() and not path.is_file():
        raise ValueError(f"dest {dest!r} is there already and is no file")
    return path


def free_place(place: PurePath, dest: str) -> None:
    """Check a place in a run's directory.

    Args:
        place: It, relative to that directory.
        dest: As the user gave it.

    Raises:
        ValueError: It is outside, or files of the run itself are there.
    """
    parts = PurePath(os.path.normpath(place)).parts
    if ".." in parts:
        raise ValueError(f"dest {dest!r} leads out of the run's directory; give an absolute path to write elsewhere")
    if not parts or parts[0] in _TAKEN:
        raise ValueError(f"dest {dest!r} is where the run keeps its own files; give the report another name")


def replace(path: Path, text: str) -> None:
    """Write a file that readers see old or new, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temp = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temp.write_text(text, encoding="utf-8", newline="")
        temp.replace(path)
    finally:
        with suppress(FileNotFoundError):
            temp.unlink()


def append_section(path: Path, text: str, *, run: str) -> None:
    """Add a section of Markdown, or put it in the place of the one that the same run has; several runs may at once."""
    begin, end = f"<!-- run {run} -->\n", f"<!-- end of run {run} -->\n"
    section = begin + text + end
    with _locked(path) as there:
        head, found, rest = there.partition(begin)
        _, closed, tail = rest.partition(end)
        if found and closed:
            replace(path, head + section + tail)
        else:
            replace(path, there + _end_of(there) + ("\n" if there else "") + section)


def append_line(path: Path, line: str) -> None:
    """Add a line of JSON, or put it in the place of the one that the same run has."""
    run = _run_of(line)
    with _locked(path) as there:
        lines = [*there.splitlines(keepends=True)]
        places = [number for number, old in enumerate(lines) if _run_of(old) == run]
        if places:
            lines[places[0]] = line
            kept = [old for number, old in enumerate(lines) if number not in places[1:]]
            replace(path, "".join(kept))
        else:
            replace(path, there + _end_of(there) + line)


def append_csv(path: Path, table: str) -> None:
    """Add the rows of a table to one with the same header, instead of those that the same run has.

    Raises:
        ValueError: The file has other columns.
    """
    names, *rows = csv.reader(io.StringIO(table, newline=""))
    run = [names.index(name) for name in RUN_KEYS]
    runs = {tuple(row[place] for place in run) for row in rows}
    with _locked(path) as there:
        before = list(csv.reader(io.StringIO(there, newline="")))
        if before and before[0] != names:
            raise ValueError(f"{path} is a table with other columns; append to another file")
        others = [row for row in before[1:] if len(row) != len(names) or tuple(row[p] for p in run) not in runs]
        out = io.StringIO()
        csv.writer(out).writerows([names, *others, *rows])
        replace(path, out.getvalue())


def _run_of(line: str) -> tuple[object, ...] | None:
    try:
        data = json.loads(line)
    except ValueError:
        return None
    return tuple(data.get(name) for name in RUN_KEYS) if isinstance(data, dict) else None


@contextmanager
def _locked(path: Path) -> Iterator[str]:
    """The text of a file that nobody else appends to meanwhile; each takes the place of the one before it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("a+", encoding="utf-8", newline="") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_at(file, path):
                continue
            file.seek(0)
            yield file.read()
            return


def _is_at(file: TextIO, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    return False


def _end_of(text: str) -> str:
    return "" if not text or text.endswith("\n") else "\n"
