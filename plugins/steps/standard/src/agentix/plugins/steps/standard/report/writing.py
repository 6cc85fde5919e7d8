"""Where a report may go, and getting it there whole."""

from __future__ import annotations

import csv
import fcntl
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

_TAKEN = frozenset(
    {
        ".lock",
        ".staging",
        "archives",
        "cases",
        "dataset",
        "experiment.yaml",
        "gate",
        "manifest.json",
        "progress.json",
        "results.jsonl",
        "run.log",
        "trials",
    }
)


def target(run_dir: Path, dest: str) -> Path:
    """The file that `dest` names.

    Raises:
        ValueError: It is a file or a directory of the run itself, or is no file.
    """
    root = run_dir.resolve()
    path = Path(os.path.normpath(root / dest))
    if path == root or (path.is_relative_to(root) and path.relative_to(root).parts[0] in _TAKEN):
        raise ValueError(f"dest {dest!r} is where the run keeps its own files; give the report another name")
    if path.exists() and not path.is_file():
        raise ValueError(f"dest {dest!r} is there already and is no file")
    return path


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


def append_text(path: Path, text: str, *, between: str) -> None:
    """Add a text at the end, unless the file holds it already; several runs may do so at once."""
    with _locked(path) as file:
        before = file.read()
        if text not in before:
            file.write(_end_of(before) + (between if before else "") + text)


def append_csv(path: Path, table: str) -> None:
    """Add the rows of a table to one with the same header, without those that it has already.

    Raises:
        ValueError: The file has other columns.
    """
    names, *rows = csv.reader(io.StringIO(table, newline=""))
    with _locked(path) as file:
        there = file.read()
        before = list(csv.reader(io.StringIO(there, newline="")))
        if before and before[0] != names:
            raise ValueError(f"{path} is a table with other columns; append to another file")
        file.write(_end_of(there))
        csv.writer(file).writerows([*([] if before else [names]), *(row for row in rows if row not in before)])


@contextmanager
def _locked(path: Path) -> Iterator[TextIO]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8", newline="") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        yield file


def _end_of(text: str) -> str:
    return "" if not text or text.endswith("\n") else "\n"
