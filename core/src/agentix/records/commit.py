"""Group commit: many results become durable together, off the event loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from agentix.records.durable import fsync_dir, write_all, write_files

_BATCH = 256


@dataclass(eq=False)
class Entry:
    """One result on its way to the disk."""

    directory: Path
    render: Callable[[], tuple[Sequence[tuple[str, bytes]], bytes]]
    """Gives the trial's files and its line, of which one may be empty; called in a thread, because it takes time."""
    files: Sequence[tuple[str, bytes]] = ()
    line: bytes = b""
    error: Exception | None = None
    done: bool = False


class GroupCommit:
    """Appends to one file, whole trials at a time.

    Whoever comes first writes what all others have handed in meanwhile, so that a sync of the disk is shared.

    Args:
        fd: The results file, open for appending.
        check: Called in a thread before anything is written; what it raises is the error of what was handed in.
    """

    def __init__(self, fd: int, *, check: Callable[[], None]) -> None:
        self._fd = fd
        self._check = check
        self._pending: list[Entry] = []
        self._turn = anyio.Lock()

    async def commit(self, entry: Entry) -> None:
        """Return when the trial's files and then its line are on the disk.

        Raises:
            OSError: They could not be written; nothing of the entry counts.
            Exception: What `check` or `render` raised.
        """
        self._pending.append(entry)
        # A result that exists is kept, also where the run is just being cancelled; the disk bounds the time.
        with anyio.CancelScope(shield=True):
            async with self._turn:
                while not entry.done:
                    batch, self._pending = self._pending[:_BATCH], self._pending[_BATCH:]
                    await anyio.to_thread.run_sync(_write, self._fd, batch, self._check)
        if entry.error is not None:
            raise entry.error


def _write(fd: int, batch: Sequence[Entry], check: Callable[[], None]) -> None:
    for entry in batch:
        try:
            check()
            entry.files, entry.line = entry.render()
        except Exception as error:
            entry.error = error
    entries = [entry for entry in batch if entry.error is None]
    try:
        _make_durable(fd, entries)
    except OSError:
        # What the disk refuses of one must not cost the others: now each is on its own.
        for entry in entries:
            try:
                _make_durable(fd, [entry])
            except OSError as error:
                entry.error = error
    finally:
        for entry in batch:
            entry.done = True


def _make_durable(fd: int, entries: Sequence[Entry]) -> None:
    with_files = [entry for entry in entries if entry.files]
    for entry in with_files:
        entry.directory.mkdir(parents=True, exist_ok=True)
    write_files([(entry.directory / name, data) for entry in with_files for name, data in entry.files])
    for parent in dict.fromkeys(entry.directory.parent for entry in with_files):
        fsync_dir(parent)
    if not any(entry.line for entry in entries):
        return
    size = os.fstat(fd).st_size
    try:
        write_all(fd, b"".join(entry.line for entry in entries))
    except OSError:
        # Half a line in the middle of the file would be damage as soon as another one follows.
        os.ftruncate(fd, size)
        raise
    os.fsync(fd)
