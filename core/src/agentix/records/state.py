"""What a run directory already holds, read without changing anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from agentix.errors import RecordsDamaged, RunError, UsageError
from agentix.models import FailureCode, Trial
from agentix.records.layout import Layout
from agentix.records.manifests import AnyManifest, parse_manifest
from agentix.records.membership import Membership
from agentix.records.plain_files import read_plain
from agentix.records.record import Record
from agentix.records.scan import Scan
from agentix.records.trial_files import TRIAL_FILE, read_trial_file

INFRA = frozenset({FailureCode.ENV_FAILED, FailureCode.HOST_ERROR, FailureCode.VERIFIER_ERROR})
"""The failures that are not the agent's: such a trial is unmeasured, and no rate counts it."""

_OF_TRIALS = tuple(
    code
    for code in FailureCode
    if code not in (FailureCode.CANCELLED, FailureCode.REDACT_FAILED, FailureCode.STEP_FAILED)
)
"""What a recorded trial may have failed with."""


@dataclass(frozen=True, kw_only=True)
class RunState:
    """What is on disk."""

    layout: Layout
    manifest: AnyManifest | None
    done: dict[str, FailureCode | None]
    """Failure code of every trial that has a line."""
    recoverable: dict[str, Record] = field(default_factory=dict)
    """Trials that ended and whose line was not written any more."""
    rerun: tuple[str, ...] = ()
    """Trials whose line was torn."""
    scan: Scan

    @classmethod
    def read(cls, path: Path, *, seen: Callable[[Record], None] | None = None) -> RunState:
        """Read a run directory, which may not exist yet.

        Args:
            path: The directory.
            seen: Told each record that is read, so that the file need not be read twice.

        Raises:
            RecordsDamaged: A file is damaged other than by a torn last line.
            RunError: The directory holds something else than a run.
        """
        layout = Layout(path)
        manifest = None
        if layout.manifest.exists():
            manifest = parse_manifest(read_plain(layout.manifest), where=str(layout.manifest))
        scan = Scan(layout.results)
        done: dict[str, FailureCode | None] = {}
        membership = Membership(manifest)
        for record in scan:
            stranger = membership.stranger(record)
            if stranger is not None:
                raise RecordsDamaged(
                    f"{layout.results}:{scan.lines}: {record.trial_id} is of {stranger}, which this run never had",
                    hint="The file was left as it is. Put the run's own in its place, or use another --id.",
                )
            done[record.trial_id] = record.failure_code
            if seen is not None:
                seen(record)
        if manifest is None and done:
            raise RunError(
                f"{path}: there are results and no manifest.json, so this run cannot be resumed",
                hint="Use another --id.",
            )
        unlisted = _unlisted(layout, done)
        torn_id = scan.torn_trial_id if scan.torn else None
        if scan.torn and torn_id is None and len(unlisted) == 1:
            torn_id = unlisted[0]
        ended = [name for name in unlisted if name != torn_id]
        recoverable = {name: recovered(layout, name) for name in ended}
        return cls(
            layout=layout,
            manifest=manifest,
            done=done,
            recoverable=recoverable,
            rerun=(torn_id,) if torn_id in unlisted and torn_id is not None else (),
            scan=scan,
        )

    @property
    def notices(self) -> list[str]:
        """What the user should know about the state of the files."""
        notices = []
        if self.scan.torn:
            which = self.scan.torn_trial_id
            notices.append(
                f"{self.layout.results}:{self.scan.lines}: the last record is torn "
                f"({len(self.scan.torn)} bytes, from a writer that was killed); it is cut off"
                + (f" and trial {which} runs again" if which else "")
            )
        if self.recoverable:
            count, name = len(self.recoverable), self.layout.results.name
            notices.append(f"{count} ended trials had no line in {name} yet; they get it without running again")
        return notices

    def plan(self, trials: Iterable[Trial], *, retry: frozenset[FailureCode] = frozenset()) -> ResumePlan:
        """Which of these trials are to be run.

        Args:
            trials: All that are wanted.
            retry: Trials that failed with these codes run again.
        """
        done = {**self.done, **{name: record.failure_code for name, record in self.recoverable.items()}}
        run, kept, retried = [], [], []
        for trial in trials:
            code = done.get(trial.trial_id)
            if trial.trial_id not in done:
                run.append(trial)
            elif code in retry:
                run.append(trial)
                retried.append(trial.trial_id)
            else:
                kept.append(trial.trial_id)
        return ResumePlan(run=tuple(run), kept=tuple(kept), retried=tuple(retried))


@dataclass(frozen=True)
class ResumePlan:
    """What a resume does."""

    run: tuple[Trial, ...]
    """In the order of the plan, trials that are run again among them."""
    kept: tuple[str, ...] = ()
    retried: tuple[str, ...] = ()
    """Trials that have a result, which is set aside."""


def parse_retry(words: Iterable[str], *, where: str = "--retry") -> frozenset[FailureCode]:
    """The failure codes that `infra` or names of codes, separated by commas, stand for.

    Raises:
        UsageError: A word is neither.
    """
    codes: set[FailureCode] = set()
    for word in (part.strip() for given in words for part in given.split(",")):
        if word.lower() == "infra":
            codes |= INFRA
        elif word.upper() in _OF_TRIALS:
            codes.add(FailureCode[word.upper()])
        else:
            known = ", ".join(_OF_TRIALS)
            raise UsageError(f"{where}: {word!r} is no failure code of a trial", hint=f"Give infra or any of {known}.")
    return frozenset(codes)


def recovered(layout: Layout, name: str) -> Record:
    """What a trial that ended has left of its record, without its steps.

    Raises:
        RecordsDamaged: It cannot be read, or is of another trial.
    """
    path = layout.trial(name) / TRIAL_FILE
    record = read_trial_file(path).record
    if record.trial_id != name:
        raise RecordsDamaged(
            f"{path}: is of the trial {record.trial_id}, and not of {name}",
            hint="The file was left as it is; remove it to run that trial again.",
        )
    return record


def _unlisted(layout: Layout, done: dict[str, FailureCode | None]) -> list[str]:
    if not layout.trials.is_dir():
        return []
    names = sorted(entry.name for entry in layout.trials.iterdir() if entry.name not in done)
    return [name for name in names if (layout.trials / name / TRIAL_FILE).is_file()]
