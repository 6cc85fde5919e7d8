"""The one writer of an experiment's run: a trial's files when it has ended, its line when its steps have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from agentix.errors import RunError
from agentix.models import FailureCode, Rollout, Trial
from agentix.records.commit import Entry
from agentix.records.durable import write_file
from agentix.records.experiment import ExperimentManifest
from agentix.records.open_run import OpenRun
from agentix.records.record import Record, utc_now
from agentix.records.repair import repair_results, writing
from agentix.records.state import ResumePlan, recovered
from agentix.records.trial_files import trial_files


class ExperimentWriter(OpenRun):
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
        super().__init__(path)
        self._manifest: ExperimentManifest | None = None
        self._reopened: dict[str, Record] = {}
        with self._opening(seen=seen):
            self.notices += [line for line in self.state.notices if "had no line" not in line]
            self.earlier = self._earlier()

    def _earlier(self) -> ExperimentManifest | None:
        found = self.state.manifest
        if found is not None and not isinstance(found, ExperimentManifest):
            raise RunError(f"{self.layout.root}: this is no run of an experiment", hint="Use another --id.")
        return found

    @property
    def manifest(self) -> ExperimentManifest:
        """What the run is, as it stands on the disk; known once `begin` was called."""
        if self._manifest is None:
            raise RunError(f"{self.layout.root}: the run was not begun")
        return self._manifest

    @property
    def ended_trials(self) -> Mapping[str, Record]:
        """Trials that ended in an earlier session and have no line yet: only their steps are left to do."""
        return {**self.state.recoverable, **self._reopened}

    def reopen(self, names: Iterable[str]) -> None:
        """Have the steps of trials done again that have a line; `begin` takes it back, and what they left stays.

        Args:
            names: Trials that have a line.

        Raises:
            RecordsDamaged: What one left cannot be read.
        """
        self._reopened |= {name: recovered(self.layout, name) for name in names}

    def check(self, manifest: ExperimentManifest, *, force: bool = False) -> list[str]:
        """What differs from the configuration that the run was started with.

        Args:
            manifest: What the run is to do now.
            force: Whether to go on nevertheless.

        Raises:
            RunChanged: Something that matters differs.
        """
        if self.earlier is None or not self._has_results:
            return []
        changes = self.earlier.changes(manifest)
        self._refuse_changes(changes, force=force)
        return changes

    def go_on(self) -> ExperimentManifest:
        """Work on a run as it is: what is known of it may be updated, and results are not added.

        Raises:
            RunError: It was never begun.
        """
        if self.earlier is None:
            raise RunError(f"{self.layout.root}: the run was never begun, it has no manifest.json")
        self._manifest = self.earlier
        return self.earlier

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
        old = self.earlier
        changed = () if old is None else (*old.changes(manifest), *old.version_changes(manifest))
        new = manifest.starting(n_concurrent=n_concurrent, to_run=len(plan.run), changed=changed)
        if old is not None:
            new = old.resumed(new, mixed=mixed if self._has_results else ())
        for half in self.layout.root.glob(".*.tmp"):
            half.unlink(missing_ok=True)
        # The manifest is first: results without one could not be resumed.
        self.update(new)
        repair_results(self.state, without=frozenset(plan.retried) | self._reopened.keys())
        self._set_aside(plan)
        self._open_results()

    def update(self, manifest: ExperimentManifest) -> None:
        """Replace manifest.json, durably.

        Raises:
            RunError: The disk did not take it, or the run is no longer where it was.
        """
        self._require_ours()
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
            RunError: The run is no longer where it was.
        """
        if rollout.failure is not None and rollout.failure.code is FailureCode.CANCELLED:
            return None
        manifest, at = self.manifest, utc_now()
        notes = manifest.record_notes
        records: list[Record] = []

        def render() -> tuple[list[tuple[str, bytes]], bytes]:
            record = Record.from_rollout(
                rollout, agent=agent, case=case, llm_spec=llm_spec, case_sha256=case_sha256, at=at, notes=notes
            )
            records.append(record)
            return trial_files(rollout, record, versions=manifest.versions), b""

        await self._results.commit(Entry(self.layout.trial(trial.trial_id), render))
        return records[0]

    async def finish(self, record: Record) -> None:
        """Write the line of a trial whose steps are done; it is durable when this returns.

        Raises:
            OSError: The disk did not take it.
            RunError: The run is no longer where it was.
        """
        await self._results.commit(Entry(self.layout.trial(record.trial_id), lambda: ((), record.to_line())))
