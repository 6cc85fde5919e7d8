"""A run directory that this process alone writes to."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio.to_thread

from agentix.errors import RunChanged, RunError
from agentix.models import FailureCode, Trial
from agentix.records.commit import GroupCommit
from agentix.records.durable import fsync_dir, replace_file
from agentix.records.layout import Layout
from agentix.records.lock import Owner, RunLock, names
from agentix.records.plain import dump_pretty, plain
from agentix.records.record import Record, utc_now
from agentix.records.repair import writing
from agentix.records.state import ResumePlan, RunState
from agentix.records.trial_files import set_aside

_TRIES = 50


class OpenRun:
    """The lock of a run, what the directory held when it was taken, and the results file once it is open.

    What a run of its kind is, and in which order its files are made whole, says the writer that derives from this.

    Args:
        path: The run directory.
    """

    state: RunState
    """What was on disk when the run was opened."""

    def __init__(self, path: Path) -> None:
        self.layout = Layout(path)
        self.notices: list[str] = []
        self._lock = RunLock(self.layout.lock)
        self._fd: int | None = None
        self._made = False
        self._commit: GroupCommit | None = None

    @contextmanager
    def _opening(self, *, seen: Callable[[Record], None] | None = None) -> Iterator[None]:
        """Take the lock and read what is there; where the block then fails, the lock is given back."""
        with writing(self.layout.root):
            self._take()
        try:
            self.state = RunState.read(self.layout.root, seen=seen)
            if self._lock.taken_over is not None and (self.state.manifest is not None or self._has_results):
                self.notices.append(f"taken over from {self._lock.taken_over}, which ended without saying so")
            yield
        except BaseException:
            self._give_back()
            raise

    def _take(self) -> None:
        root = self.layout.root
        for left in reversed(range(_TRIES)):
            # What a killed process has left before anything was recorded is as good as nothing.
            self._made = self._made or not root.exists() or self.layout.lock.exists()
            try:
                root.mkdir(parents=True, exist_ok=True)
                self._lock.acquire(Owner.this_process(utc_now()))
            except (FileNotFoundError, FileExistsError):
                # Another process has just removed it, since nothing came of its own run; it was there a moment ago.
                if not left:
                    raise
                continue
            try:
                self.layout.trials.mkdir(exist_ok=True)
            except BaseException:
                self._give_back()
                raise
            return

    def _give_back(self) -> None:
        """Release the lock; a directory in which nothing has been recorded does not stay."""
        layout = self.layout
        if layout.manifest.exists() or layout.results.exists() or not self._lock.held:
            self._lock.release()
            return
        with suppress(OSError):
            layout.trials.rmdir()
        if {entry.name for entry in layout.root.iterdir()} != {layout.lock.name}:
            self._lock.release()
            return
        self._lock.discard()
        if self._made:
            with suppress(OSError):
                layout.root.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    @property
    def _has_results(self) -> bool:
        return bool(self.state.done or self.state.recoverable)

    def _refuse_changes(self, changes: Sequence[str], *, force: bool) -> None:
        """Refuse to go on with another configuration than the run was started with.

        Raises:
            RunChanged: Something differs, and it is not forced.
        """
        if changes and not force:
            raise RunChanged(
                f"{self.layout.root}: the configuration is not the one that this run was started with:\n"
                + "\n".join(f"    {change}" for change in changes),
                hint="Use another --id, or --force to go on and have the new records marked as mixed.",
            )

    def plan(self, trials: Iterable[Trial], *, retry: frozenset[FailureCode] = frozenset()) -> ResumePlan:
        """Which of these trials are to be run; those of which only the line is missing count as kept."""
        return self.state.plan(trials, retry=retry)

    def _set_aside(self, plan: ResumePlan) -> None:
        """Keep the files of trials that run again out of the way of the new ones."""
        again = {*plan.retried, *(trial.trial_id for trial in plan.run), *self.state.rerun}
        known = {entry.name for entry in self.layout.trials.iterdir()}
        for trial_id in sorted(again & known):
            set_aside(self.layout.trial(trial_id))

    def _open_results(self) -> None:
        self._fd = os.open(self.layout.results, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        fsync_dir(self.layout.root)
        self._commit = GroupCommit(self._fd, check=self._require_ours)

    def _require_ours(self) -> None:
        """See that what is written goes where it is looked for, and into no other run.

        Raises:
            RunError: The directory, its lock or its results were moved, removed or replaced.
        """
        layout = self.layout
        if not self._lock.held:
            lost = f"{layout.root}: was moved or removed while this run wrote to it, or its {layout.lock.name} was"
            raise RunError(lost, hint="Put it back and resume, or start anew; nothing more is written there.")
        if self._fd is not None and not names(layout.results, self._fd):
            lost = f"{layout.results}: was moved, removed or replaced while this run wrote to it"
            raise RunError(lost, hint="Put it back and resume; a trial without a line goes on with its steps.")

    @property
    def _results(self) -> GroupCommit:
        if self._commit is None:
            raise RunError(f"{self.layout.root}: the run was not begun")
        return self._commit

    async def write_progress(self, progress: Mapping[str, Any]) -> None:
        """Replace progress.json and show other hosts that this run lives."""
        await anyio.to_thread.run_sync(self._write_progress, dump_pretty(plain(progress)))

    def _write_progress(self, data: bytes) -> None:
        if not self._lock.held:
            raise FileNotFoundError(errno.ENOENT, "the run is no longer there", str(self.layout.root))
        replace_file(self.layout.progress, data)
        self._lock.touch()

    def close(self) -> None:
        """Release the run."""
        if self._fd is not None:
            fd, self._fd, self._commit = self._fd, None, None
            os.close(fd)
        self._give_back()
