"""The one writer of an experiment's run: a trial's files when it has ended, its line when its steps have."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import anyio.to_thread

from agentix.errors import RunChanged, RunError
from agentix.models import FailureCode, Rollout, Trial
from agentix.records.commit import Entry, GroupCommit
from agentix.records.durable import fsync_dir, replace_file, write_file
from agentix.records.experiment import ExperimentManifest
from agentix.records.layout import Layout
from agentix.records.lock import Owner, RunLock
from agentix.records.plain import dump_pretty, plain
from agentix.records.record import Record, utc_now
from agentix.records.repair import repair_results, writing
from agentix.records.state import ResumePlan, RunState
from agentix.records.trial_files import set_aside, trial_files


class ExperimentWriter:
    """Holds the lock of a run from before its cases are resolved until its report is written.

    Use as a context manager; while it is open, no other process writes to the run. Nothing on disk but the lock
    changes before `begin`.

    Args:
        path: The run directory; it is created where it does not exist.
        seen: Told each record that the run has already.

    Raises:
        RunLocked: Another process writes to the run.
        RecordsDamaged: Its files are damaged.
        RunError: It is the run of something else.
    """

    def __init__(self, path: Path, *, seen: Callable[[Record], None] | None = None) -> None:
        self.layout = Layout(path)
        self.notices: list[str] = []
        self._lock = RunLock(self.layout.lock)
        self._fd: int | None = None
        self._commit: GroupCommit | None = None
        self._manifest: ExperimentManifest | None = None
        with writing(path):
            self.layout.trials.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(Owner.this_process(utc_now()))
        try:
            if self._lock.taken_over is not None:
                self.notices.append(f"taken over from {self._lock.taken_over}, which ended without saying so")
            self.state = RunState.read(path, seen=seen)
            self.notices += [line for line in self.state.notices if "had no line" not in line]
            self.earlier = self._earlier()
        except BaseException:
            self._lock.release()
            raise

    def _earlier(self) -> ExperimentManifest | None:
        found = self.state.manifest
        if found is not None and not isinstance(found, ExperimentManifest):
            raise RunError(f"{self.layout.root}: this is no run of an experiment", hint="Use another --id.")
        return found

    def __enter__(self) -> ExperimentWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    @property
    def manifest(self) -> ExperimentManifest:
        """What the run is, as it stands on the disk; known once `begin` was called."""
        if self._manifest is None:
            raise RunError(f"{self.layout.root}: the run was not begun")
        return self._manifest

    @property
    def ended_trials(self) -> Mapping[str, Record]:
        """Trials that ended in an earlier session and have no line yet: only their steps are left to do."""
        return self.state.recoverable

    def check(self, manifest: ExperimentManifest, *, force: bool = False) -> list[str]:
        """What differs from the configuration that the run was started with.

        Args:
            manifest: What the run is to do now.
            force: Whether to go on nevertheless.

        Raises:
            RunChanged: Something that matters differs.
        """
        if self.earlier is None or not (self.state.done or self.state.recoverable):
            return []
        changes = self.earlier.changes(manifest)
        if changes and not force:
            raise RunChanged(
                f"{self.layout.root}: the configuration is not the one that this run was started with:\n"
                + "\n".join(f"    {change}" for change in changes),
                hint="Use another --id, or --force to go on and have the new records marked as mixed.",
            )
        return changes

    def plan(self, trials: Iterable[Trial], *, retry: frozenset[FailureCode] = frozenset()) -> ResumePlan:
        """Which of these trials are to be run; those of `ended_trials` count as kept."""
        return self.state.plan(trials, retry=retry)

    def begin(
        self, manifest: ExperimentManifest, plan: ResumePlan, *, n_concurrent: int = 1, mixed: Iterable[str] = ()
    ) -> None:
        """Repair the files, set earlier results of what runs again aside and note the session.

        Raises:
            RunError: The directory cannot be written.
        """
        with writing(self.layout.root):
            self._begin(manifest, plan, n_concurrent, tuple(mixed))

    def _begin(self, manifest: ExperimentManifest, plan: ResumePlan, n_concurrent: int, mixed: tuple[str, ...]) -> None:
        old, state = self.earlier, self.state
        results = bool(state.done or state.recoverable)
        changes = () if old is None else (*old.changes(manifest), *old.version_changes(manifest))
        session = manifest.sessions[0].model_copy(
            update={"n_concurrent": n_concurrent, "to_run": len(plan.run), "changed": changes}
        )
        new = manifest.model_copy(update={"sessions": (session,)})
        if old is not None:
            new = old.resumed(new, mixed=mixed if results else ())
        for half in self.layout.root.glob(".*.tmp"):
            half.unlink(missing_ok=True)
        # The manifest is first: results without one could not be resumed.
        self.update(new)
        repair_results(state, without=frozenset(plan.retried))
        again = {*plan.retried, *(trial.trial_id for trial in plan.run), *state.rerun}
        known = {entry.name for entry in self.layout.trials.iterdir()}
        for trial_id in sorted(again & known):
            set_aside(self.layout.trial(trial_id))
        self._fd = os.open(self.layout.results, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        fsync_dir(self.layout.root)
        self._commit = GroupCommit(self._fd)

    def update(self, manifest: ExperimentManifest) -> None:
        """Replace manifest.json, durably.

        Raises:
            RunError: The disk did not take it.
        """
        with writing(self.layout.root):
            write_file(self.layout.manifest, manifest.to_bytes())
        self._manifest = manifest

    async def trial_ended(
        self,
        rollout: Rollout,
        trial: Trial,
        *,
        agent: str,
        case: str,
        case_sha256: str | None = None,
        llm_spec: str | None = None,
    ) -> Record | None:
        """Keep what a trial left; its trial.json is durable when this returns.

        Returns:
            The record so far; `None` for a cancelled trial, which is no result and runs again on resume.

        Raises:
            OSError: The disk did not take it.
        """
        if rollout.failure is not None and rollout.failure.code is FailureCode.CANCELLED:
            return None
        manifest, at = self.manifest, utc_now()
        notes = tuple(f"mixed: {change}" for change in manifest.mixed)
        records: list[Record] = []

        def render() -> tuple[list[tuple[str, bytes]], bytes]:
            record = Record.from_rollout(
                rollout, agent=agent, case=case, llm_spec=llm_spec, case_sha256=case_sha256, at=at, notes=notes
            )
            records.append(record)
            return trial_files(rollout, record, versions=manifest.versions), b""

        await self._committed(Entry(self.layout.trial(trial.trial_id), render))
        return records[0]

    async def finish(self, record: Record) -> None:
        """Write the line of a trial whose steps are done; it is durable when this returns.

        Raises:
            OSError: The disk did not take it.
        """
        await self._committed(Entry(self.layout.trial(record.trial_id), lambda: ((), record.to_line())))

    async def _committed(self, entry: Entry) -> None:
        if self._commit is None:
            raise RunError(f"{self.layout.root}: the run was not begun")
        await self._commit.commit(entry)

    async def write_progress(self, progress: Mapping[str, Any]) -> None:
        """Replace progress.json and show other hosts that this run lives."""
        await anyio.to_thread.run_sync(self._write_progress, dump_pretty(plain(progress)))

    def _write_progress(self, data: bytes) -> None:
        replace_file(self.layout.progress, data)
        self._lock.touch()

    def close(self) -> None:
        """Release the run."""
        if self._fd is not None:
            fd, self._fd, self._commit = self._fd, None, None
            os.close(fd)
        self._lock.release()
