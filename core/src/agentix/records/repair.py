"""Making the files of an interrupted run whole again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agentix.errors import RunError
from agentix.records.durable import write_all, write_file
from agentix.records.record import Record
from agentix.records.scan import Scan
from agentix.records.state import RunState


@contextmanager
def writing(root: Path) -> Iterator[None]:
    """Turn what the disk refuses into an error that names the run."""
    try:
        yield
    except OSError as error:
        raise RunError(f"{root}: cannot be written: {error.strerror or error}") from error


def repair_results(state: RunState, *, without: frozenset[str], more: Sequence[Record] = ()) -> None:
    """Cut a torn end off results.jsonl, take lines out of it and add others; a whole file is left as it is.

    Args:
        state: What the run holds.
        without: Trials whose lines go.
        more: Records that get a line.

    Raises:
        OSError: The disk did not take it; the file is as it was, or has the added lines partly.
    """
    path = state.layout.results
    lines = [record.to_line() for record in more]
    if without & state.done.keys():
        kept = [record.to_line() for record in Scan(path) if record.trial_id not in without]
        write_file(path, b"".join((*kept, *lines)))
        return
    if not (state.scan.torn or state.scan.unterminated or lines):
        return
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.ftruncate(fd, state.scan.end)
        os.lseek(fd, 0, os.SEEK_END)
        write_all(fd, (b"\n" if state.scan.unterminated else b"") + b"".join(lines))
        os.fsync(fd)
    finally:
        os.close(fd)
