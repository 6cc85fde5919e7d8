"""The one writer of a run directory."""

from __future__ import annotations

from pathlib import Path

from agentix.errors import RunError
from agentix.models import FailureCode, Rollout, Trial
from agentix.records.commit import Entry
from agentix.records.durable import write_file
from agentix.records.manifest import Manifest
from agentix.records.open_run import OpenRun
from agentix.records.plain import clean_text
from agentix.records.record import Record, utc_now
from agentix.records.repair import repair_results, writing
from agentix.records.state import ResumePlan
from agentix.records.trial_files import trial_files


class RunWriter(OpenRun):
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
        super().__init__(path)
        self.manifest = manifest
        self._hashes = {i.id: i.sha256 for i in manifest.instances}
        with self._opening():
            self.notices += self.state.notices
            self._mixed = self._check_changes(force=force)

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
        self._refuse_changes(changes, force=force)
        self.notices += [f"mixed: {change}" for change in changes]
        self.notices += [f"another version than before: {change}" for change in old.version_changes(self.manifest)]
        return changes if self._has_results else []

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
        self._set_aside(plan)
        if old is not None and not plan.run:
            self.manifest = old
            return
        changed = () if old is None else (*old.changes(self.manifest), *old.version_changes(self.manifest))
        new = self.manifest.starting(n_concurrent=n_concurrent, to_run=len(plan.run), changed=changed)
        self.manifest = new if old is None else old.resumed(new, mixed=self._mixed)
        write_file(self.layout.manifest, self.manifest.to_bytes())
        self._open_results()

    def trial_dir(self, trial: Trial) -> Path:
        """The directory of a trial, for whoever writes the files of its attempts."""
        return self.layout.trial(trial.trial_id)

    async def record(self, rollout: Rollout, trial: Trial, *, agent: str) -> Record | None:
        """Keep a result: its files, then its line; both are durable when this returns.

        Returns:
            The record; `None` for a cancelled trial, which is no result and runs again on resume.

        Raises:
            OSError: The disk did not take it.
            RunError: The run is no longer where it was.
        """
        results = self._results
        if rollout.failure is not None and rollout.failure.code is FailureCode.CANCELLED:
            return None
        at = utc_now()
        notes = self.manifest.record_notes
        sha256 = self._hashes.get(clean_text(trial.instance_id))
        records: list[Record] = []

        def render() -> tuple[list[tuple[str, bytes]], bytes]:
            record = Record.from_rollout(
                rollout, agent=agent, llm_spec=trial.model, case_sha256=sha256, at=at, notes=notes
            )
            records.append(record)
            return trial_files(rollout, record, versions=self.manifest.versions), record.to_line()

        await results.commit(Entry(self.trial_dir(trial), render))
        return records[0]
