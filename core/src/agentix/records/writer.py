"""The one writer of a run directory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import anyio.to_thread

from agentix.errors import RunChanged, RunError
from agentix.models import FailureCode, Rollout, Trial
from agentix.records.commit import Entry, GroupCommit
from agentix.records.durable import fsync_dir, replace_file, write_file
from agentix.records.layout import Layout
from agentix.records.lock import Owner, RunLock
from agentix.records.manifest import Manifest
from agentix.records.plain import clean_text, dump_pretty, plain
from agentix.records.record import Record, utc_now
from agentix.records.repair import repair_results, writing
from agentix.records.state import ResumePlan, RunState
from agentix.records.trial_files import set_aside, trial_files


class RunWriter:
    """Starts or resumes a run and keeps its results.

    Use as a context manager; while it is open, no other process writes to the run. Nothing on disk but
    the lock changes before `begin`.

    Args:
        path: The run directory; it is created where it does not exist.
        manifest: What the run is to do now.
        force: Resume although the configuration changed; new records then say that the run is mixed.

    Raises:
        RunLocked: Another process writes to the run.
        RunChanged: The configuration differs from the one that the run has results of.
        RecordsDamaged: Its files are damaged.
    """

    def __init__(self, path: Path, manifest: Manifest, *, force: bool = False) -> None:
        self.layout = Layout(path)
        self.manifest = manifest
        self.notices: list[str] = []
        self._hashes = {i.id: i.sha256 for i in manifest.instances}
        self._lock = RunLock(self.layout.lock)
        self._fd: int | None = None
        self._commit: GroupCommit | None = None
        self._open(force=force)

    def _open(self, *, force: bool) -> None:
        with writing(self.layout.root):
            self.layout.trials.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(Owner.this_process(utc_now()))
        try:
            if self._lock.taken_over is not None:
                self.notices.append(f"taken over from {self._lock.taken_over}, which ended without saying so")
            self.state = RunState.read(self.layout.root)
            self.notices += self.state.notices
            self._mixed = self._check_changes(force=force)
        except BaseException:
            self._lock.release()
            raise

    @property
    def _earlier(self) -> Manifest | None:
        old = self.state.manifest
        if old is not None and not isinstance(old, Manifest):
            raise RunError(
                f"{self.layout.root}: this is the run of an experiment ({old.file})", hint="Use another --id."
            )
        return old

    def _check_changes(self, *, force: bool) -> list[str]:
        old = self._earlier
        if old is None:
            return []
        changes = old.changes(self.manifest)
        if changes and not force:
            raise RunChanged(
                f"{self.layout.root}: the configuration is not the one that this run was started with:\n"
                + "\n".join(f"    {change}" for change in changes),
                hint="Use another --id, or --force to go on and have the new records marked as mixed.",
            )
        self.notices += [f"mixed: {change}" for change in changes]
        self.notices += [f"another version than before: {change}" for change in old.version_changes(self.manifest)]
        has_results = bool(self.state.done or self.state.recoverable)
        return changes if has_results else []

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def plan(self, trials: Iterable[Trial], *, retry: frozenset[FailureCode] = frozenset()) -> ResumePlan:
        """Which of these trials are to be run; see `RunState.plan`."""
        return self.state.plan(trials, retry=retry)

    def code_of(self, trial_id: str) -> FailureCode | None:
        """The failure code of a trial that had a result when the run was opened."""
        recovered = self.state.recoverable.get(trial_id)
        return self.state.done.get(trial_id) if recovered is None else recovered.failure_code

    def begin(self, plan: ResumePlan, *, n_concurrent: int = 1) -> None:
        """Repair the files, set earlier results of what runs again aside and note the session.

        A finished run, of which nothing is run again, is left byte for byte as it is.

        Raises:
            RunError: The directory cannot be written.
        """
        with writing(self.layout.root):
            self._begin(plan, n_concurrent)

    def _begin(self, plan: ResumePlan, n_concurrent: int) -> None:
        state, old = self.state, self._earlier
        without = frozenset(plan.retried)
        repair_results(state, without=without, more=[r for name, r in state.recoverable.items() if name not in without])
        again = {*plan.retried, *(trial.trial_id for trial in plan.run), *state.rerun}
        known = {entry.name for entry in self.layout.trials.iterdir()}
        for trial_id in sorted(again & known):
            set_aside(self.layout.trial(trial_id))
        if old is not None and not plan.run:
            self.manifest = old
            return
        first = self.manifest.sessions[0]
        changed = () if old is None else (*old.changes(self.manifest), *old.version_changes(self.manifest))
        session = first.model_copy(update={"n_concurrent": n_concurrent, "to_run": len(plan.run), "changed": changed})
        new = self.manifest.model_copy(update={"sessions": (session,)})
        self.manifest = new if old is None else old.resumed(new, mixed=self._mixed)
        write_file(self.layout.manifest, self.manifest.to_bytes())
        self._fd = os.open(self.layout.results, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        fsync_dir(self.layout.root)
        self._commit = GroupCommit(self._fd)

    def trial_dir(self, trial: Trial) -> Path:
        """The directory of a trial, for whoever writes the files of its attempts."""
        return self.layout.trial(trial.trial_id)

    async def record(self, rollout: Rollout, trial: Trial, *, agent: str) -> Record | None:
        """Keep a result: its files, then its line; both are durable when this returns.

        Returns:
            The record; `None` for a cancelled trial, which is no result and runs again on resume.

        Raises:
            OSError: The disk did not take it.
        """
        if self._commit is None:
            raise RunError(f"{self.layout.root}: the run was not begun")
        if rollout.failure is not None and rollout.failure.code is FailureCode.CANCELLED:
            return None
        at = utc_now()
        notes = tuple(f"mixed: {change}" for change in self.manifest.mixed)
        sha256 = self._hashes.get(clean_text(trial.instance_id))
        records: list[Record] = []

        def render() -> tuple[list[tuple[str, bytes]], bytes]:
            record = Record.from_rollout(
                rollout, agent=agent, llm_spec=trial.model, case_sha256=sha256, at=at, notes=notes
            )
            records.append(record)
            return trial_files(rollout, record, versions=self.manifest.versions), record.to_line()

        await self._commit.commit(Entry(self.trial_dir(trial), render))
        return records[0]

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
