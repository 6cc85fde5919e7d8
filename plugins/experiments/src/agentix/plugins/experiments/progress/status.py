"""What another terminal can see of a run, finished or not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agentix.api import FailureCode, Record, Run, RunNumbers
from agentix.cli.api import ExperimentManifest, Output, StepEnd, number, plural, read_owner, reason, seconds, table
from agentix.plugins.experiments.progress.agent_table import agent_table
from agentix.plugins.experiments.progress.shipment_log import SHIPMENTS, read_shipments
from agentix.plugins.experiments.progress.shipments import Shipments
from agentix.plugins.experiments.progress.wording import where

_FAILURES = 40
_ENDS = ("finished", "stopped", "interrupted")
_COUNTS = ("done", "of", "dropped", "failed")


@dataclass(frozen=True, kw_only=True)
class Status:
    """One look at a run."""

    run_id: str
    path: Path
    state: str
    """As in progress.json; `dead` where the writer ended without saying so, `unknown` where nothing tells."""
    progress: Mapping[str, Any]
    numbers: RunNumbers
    cases: Mapping[str, Counter[str]]
    """Per case: `done`, `of`, `dropped`, `failed`."""
    failures: tuple[Record, ...] = ()
    more_failures: int = 0
    notes: tuple[tuple[str, str, str], ...] = ()
    """Steps after trials that did not pass and were let be: the trial, the step, what is noted."""
    more_notes: int = 0
    unredacted: int = 0
    """Trials that could not be redacted when they ended; nothing of them is published before that was done."""
    planned: int = 0
    mixed: tuple[str, ...] = ()
    ended: tuple[StepEnd, ...] = ()
    incomplete: str | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Cases that did not pass the gate, and why."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Cases that a check could not be made on, and why."""
    shipments: Shipments = field(default_factory=Shipments)
    """What was sent where."""
    in_flight: tuple[Mapping[str, Any], ...] = ()
    """Trials that are being run, or were when the run was last seen; none of a run that ended."""


def look(run: Run, *, case: str | None = None, most: int = _FAILURES) -> Status:
    """Read what there is.

    Args:
        run: The run.
        case: Only cases whose name or label contains this.
        most: How many failures and notes to keep.
    """
    manifest = run.manifest
    experiment = manifest if isinstance(manifest, ExperimentManifest) else None
    progress = _progress(run.layout.progress)
    names = {} if experiment is None else {use.label: use.name for use in experiment.cases}

    def wanted(label: str) -> bool:
        return case is None or case in label or case in names.get(label, "")

    cases: dict[str, Counter[str]] = {}
    if experiment is not None:
        of = sum(row.trials for row in experiment.matrix)
        cases = {
            case.label: Counter(of=of if case.planned is None else case.planned)
            for case in experiment.cases
            if wanted(case.label) and (case.planned or case.label not in experiment.rejected)
        }
    failures: list[Record] = []
    notes: list[tuple[str, str, str]] = []
    more = unredacted = 0

    def seen() -> Iterator[Record]:
        nonlocal more, unredacted
        for record in run:
            if not wanted(record.case):
                continue
            count = cases.setdefault(record.case, Counter())
            count["done"] += 1
            count["dropped"] += record.dropped
            agents = record.failure_code is not None and record.failure_code.is_agents
            count["failed"] += record.reward is None and not agents
            notes.extend((record.trial_id, step, what) for step, what in record.step_notes)
            unredacted += any(f.code is FailureCode.REDACT_FAILED for f in record.step_failures)
            if record.reward is None or record.step_failures:
                if len(failures) < most:
                    failures.append(record)
                else:
                    more += 1
            yield record

    numbers = RunNumbers.of_run(run, records=seen())
    state = _state(run, progress)
    flying = progress.get("in_flight") or () if state not in (*_ENDS, "unknown") else ()
    return Status(
        run_id=run.path.name,
        path=run.path,
        state=state,
        progress=progress,
        numbers=numbers,
        cases=cases,
        failures=tuple(failures),
        more_failures=more,
        notes=tuple(notes[:most]),
        more_notes=len(notes[most:]),
        unredacted=unredacted,
        planned=numbers.total.n + numbers.total.unrun if manifest is None else manifest.planned,
        mixed=() if manifest is None else manifest.mixed,
        ended=() if experiment is None else experiment.ended,
        incomplete=None if experiment is None else experiment.incomplete,
        left_out={} if experiment is None else {k: v for k, v in experiment.rejected.items() if wanted(k)},
        unknown={} if experiment is None else {k: v for k, v in experiment.unknown.items() if wanted(k)},
        shipments=Shipments.of(read_shipments(run.layout.root / SHIPMENTS), wanted=wanted),
        in_flight=tuple(trial for trial in flying if wanted(str(trial.get("case", "")))),
    )


def _progress(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _state(run: Run, progress: Mapping[str, Any]) -> str:
    owner = read_owner(run.layout.lock)
    state = str(progress.get("state") or "")
    if owner is not None:
        return (state or "starting") if owner.is_alive else "dead"
    return state if state in _ENDS else "dead" if state else "unknown"


def print_status(
    status: Status, output: Output, *, pass_at: float | None = None, failures: bool = False, case: str | None = None
) -> None:
    """The status for people."""
    doing = str(status.progress.get("doing") or "") if status.state not in (*_ENDS, "dead", "unknown") else ""
    output.line(f"{status.run_id} ({status.state}{f': {doing}' if doing else ''})")
    dropped = sum(count["dropped"] for count in status.cases.values())
    counted = sum(count["done"] for count in status.cases.values())
    of = sum(count["of"] for count in status.cases.values()) if case is not None else status.planned
    parts = [f"{counted}/{of or counted} trials done"]
    parts += [f"{dropped} dropped"] if dropped else []
    parts += [f"{status.unredacted} could not be redacted"] if status.unredacted else []
    output.line(" · ".join(parts))
    for change in status.mixed:
        output.line(f"mixed: {change}")
    if status.incomplete:
        output.line(f"did not complete: {status.incomplete}")
    for label, why in status.left_out.items():
        output.line(f"did not pass the gate: case {label}: {why}")
    for label, why in status.unknown.items():
        output.line(f"could not be checked: case {label}: {why}")
    told = {line.step for line in status.shipments.whole}
    for end in status.ended:
        if (not end.ok or end.withheld) and end.step not in told:
            output.line(f"step {end.step}: {end.message}")
    if status.shipments:
        output.line("shipments")
        for line in status.shipments.lines(withheld=dropped + status.unredacted, failures=failures):
            output.line(line)
    output.line()
    rows = [[label, *(str(count[key]) for key in _COUNTS)] for label, count in status.cases.items()]
    if rows:
        for line in table(["case", *_COUNTS], rows, right=frozenset({1, 2, 3, 4}), width=output.width, shorten=0):
            output.line(line)
        output.line()
    _print_in_flight(status, output, case=case)
    for line in agent_table(status.numbers, pass_at=pass_at):
        output.line(line)
    total = status.numbers.total
    if total.n and replace(total, planned=None).low_coverage:
        output.line(f"LOW COVERAGE: only {total.denominator} of {total.n} trials that are done count")
    if failures:
        _print_failures(status, output)


def _print_in_flight(status: Status, output: Output, *, case: str | None) -> None:
    if not status.in_flight:
        return
    output.line("in flight" if status.state != "dead" else "in flight when it was last seen")
    for trial in status.in_flight:
        doing = where(str(trial["step"]), str(trial.get("phase") or ""))
        output.line(f"  {trial['trial_id']}  {doing}  {seconds(float(trial['seconds']))}")
    more = int(status.progress.get("in_flight_count") or 0) - len(status.progress.get("in_flight") or ())
    if more > 0 and case is None:
        output.line(f"  and {more} more")
    output.line()


def _print_failures(status: Status, output: Output) -> None:
    output.line()
    for record in status.failures:
        if record.reward is None:
            output.line(f"{record.trial_id}: {reason(record)}  {status.path / 'trials' / record.trial_id}")
        for failure in record.step_failures:
            output.line(f"{record.trial_id}: reward {number(record.reward)}; step {failure.step}: {failure.message}")
    if status.more_failures:
        output.line(f"… and {plural(status.more_failures, 'more failure')}: --json lists all")
    if not status.failures:
        output.line("nothing failed")
    for trial_id, step, what in status.notes:
        output.line(f"note: {trial_id}: step {step}: {what}")
    if status.more_notes:
        output.line(f"… and {plural(status.more_notes, 'more note')}")


def to_data(status: Status, *, pass_at: float | None = None, failures: bool = False) -> dict[str, Any]:
    """The status for programs."""
    data: dict[str, Any] = {
        "run_id": status.run_id,
        "path": str(status.path),
        "state": status.state,
        "planned": status.planned,
        "incomplete": status.incomplete,
        "unredacted": status.unredacted,
        "left_out": dict(status.left_out),
        "unknown": dict(status.unknown),
        "mixed": list(status.mixed),
        "ended": [end.model_dump(mode="json") for end in status.ended],
        "cases": {label: {key: count[key] for key in _COUNTS} for label, count in status.cases.items()},
        "shipments": status.shipments.to_data(),
        "in_flight": list(status.in_flight),
        "numbers": status.numbers.to_data(pass_at=pass_at),
    }
    if failures:
        data["failures"] = [record.to_data() for record in status.failures]
        data["notes"] = [{"trial_id": t, "step": step, "note": what} for t, step, what in status.notes]
    return data
