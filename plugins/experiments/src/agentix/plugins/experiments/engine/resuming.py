"""What is left to do of a run: which trials, of which only the steps, and whether it is the same run at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentix.api import FailureCode, Record, Trial, load_run
from agentix.cli.api import ExperimentManifest, ResumePlan, StepFailure, plural
from agentix.plugins.experiments.engine.closing_steps import closing_steps, left_to_do
from agentix.plugins.experiments.engine.counting import Belonging
from agentix.plugins.experiments.engine.live import LiveRun
from agentix.plugins.experiments.plan import Plan, PlannedTrial
from agentix.plugins.experiments.progress import CaseCount
from agentix.plugins.experiments.steps import ResolvedStep


@dataclass(frozen=True)
class Ended:
    """A trial whose trial.json is on the disk and whose steps are still to be done."""

    planned: PlannedTrial
    record: Record


@dataclass(frozen=True, kw_only=True)
class Left:
    """What is left to do."""

    resume: ResumePlan
    trials: tuple[PlannedTrial, ...]
    """That are run."""
    ended: tuple[Ended, ...]
    """Of which only the steps are left."""
    rescored: frozenset[str]
    """Those that are run again because scoring failed, so that what the agent had done may be scored again."""
    anything: bool
    """Whether there is anything to do, be it a step of the whole run."""

    @property
    def line(self) -> str:
        """`3 trials to run (1 of them again), 7 kept`."""
        again = f" ({len(self.resume.retried)} of them again)" if self.resume.retried else ""
        parts = [f"{plural(len(self.trials), 'trial')} to run{again}"]
        kept = len(self.resume.kept) - len(self.ended)
        if kept:
            parts.append(f"{kept} kept")
        if self.ended:
            parts.append(f"{len(self.ended)} ended before, of which only the steps are left")
        return ", ".join(parts)


def refuse_changes(live: LiveRun, manifest: ExperimentManifest, *, force: bool) -> list[str]:
    """See that it is the run that there is.

    Returns:
        What differs, where that is forced.

    Raises:
        RunChanged: Something differs that makes results another measurement.
    """
    mixed = live.writer.check(manifest, force=force)
    for change in mixed:
        live.say(f"mixed: {change}")
    earlier = live.writer.earlier
    live.notes(
        f"another version than before: {c}" for c in (() if earlier is None else earlier.version_changes(manifest))
    )
    return mixed


def what_is_left(live: LiveRun, plan: Plan, *, retry: frozenset[FailureCode]) -> Left:
    """Compare a plan with what is on the disk.

    Args:
        live: The run.
        plan: What it consists of now.
        retry: Trials that failed with these codes run again.
    """
    writer, parts = live.writer, live.parts
    planned = {trial.trial_id: trial for trial in plan.trials}
    light = (Trial(trial_id=t.trial_id, instance=t.case.instance, index=t.index) for t in plan.trials)
    resume = writer.plan(light, retry=retry)
    again = frozenset(resume.retried)
    left = unshipped(parts.pipeline.per_trial, live.board.failed_steps)
    writer.reopen(name for name in left if name in planned and name not in again)
    ended = tuple(
        Ended(planned[name], record)
        for name, record in writer.ended_trials.items()
        if name in planned and name not in again
    )
    codes = (writer.state.done, {name: record.failure_code for name, record in writer.ended_trials.items()})
    rescored = {name for found in codes for name in again if found.get(name) is FailureCode.VERIFIER_ERROR}
    earlier, scan = writer.earlier, writer.state.scan
    return Left(
        resume=resume,
        trials=tuple(planned[trial.trial_id] for trial in resume.run),
        ended=ended,
        rescored=frozenset(rescored),
        anything=bool(
            resume.run
            or ended
            or earlier is None
            or earlier.incomplete is not None
            or scan.torn
            or scan.unterminated
            or left_to_do(closing_steps(parts), earlier)
        ),
    )


def changed_steps(live: LiveRun, manifest: ExperimentManifest, left: Left) -> Iterator[str]:
    """The steps after a trial that are other ones now, where there are trials on which they are not done again."""
    earlier, kept = live.writer.earlier, len(left.resume.kept) - len(left.ended)
    for change in earlier.trial_step_changes(manifest) if earlier is not None and kept else ():
        yield f"per_trial: {change}; {plural(kept, 'trial')} kept as the steps before have left them"


def unshipped(steps: Sequence[ResolvedStep], failed: Mapping[str, Sequence[StepFailure]]) -> Iterator[str]:
    """The trials of which a shipment failed, or could not be made because redaction failed.

    Args:
        steps: The steps after a trial.
        failed: By trial, the steps that failed.
    """
    shipping = {step.label for step in steps if step.ships}
    for name, failures in failed.items() if shipping else ():
        if any(one.step in shipping or one.code is FailureCode.REDACT_FAILED for one in failures):
            yield name


def fill_board(live: LiveRun, belongs: Belonging, left: Left) -> None:
    """Have it count what there will be, and of what there is only what stays."""
    board, writer = live.board, live.writer
    again = {*left.resume.retried, *(writer.ended_trials.keys() & board.recorded)}
    if again:
        board.forget()
        for record in load_run(live.root):
            if record.trial_id not in again:
                board.count(record)
    board.planned = belongs.total
    for label, count in belongs.cases.items():
        board.cases.setdefault(label, CaseCount()).of = count
