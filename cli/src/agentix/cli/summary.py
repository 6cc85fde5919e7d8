"""What is said at the end of a run, and the exit code that goes with it."""

from __future__ import annotations

import json
import signal
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentix.cli import exit_codes
from agentix.cli.order import first, planned_order
from agentix.cli.output import Output
from agentix.cli.table import table
from agentix.cli.wording import notes_of, number, plural, reason, result, seconds, totals
from agentix.records import Record, Run
from agentix.stats import Summary

ROWS = 40
"""How many trials are listed where nobody asks for more."""
_NOTE = 72
_TOGETHER = 3
_LOGS = ("test-stdout.txt", "agent-error.txt", "agent.log", "failure.json", "stdout.txt", "stderr.txt")


@dataclass(frozen=True, kw_only=True)
class Ending:
    """Everything that the end of a run is judged by."""

    run: Run
    summary: Summary
    unrun: tuple[str, ...] = ()
    """Planned trials without a result."""
    signal: int | None = None
    stopped: str | None = None
    said: tuple[str, ...] = ()
    """What providers have said, once for all trials."""
    unreleased: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    fail_under: float | None = None
    allow_failures: bool = False
    elapsed_s: float = 0.0
    resume_with: str = ""

    @property
    def below(self) -> bool:
        """Whether the mean is below what was asked for, or there is none."""
        mean = self.summary.mean_reward
        return self.fail_under is not None and (mean is None or mean < self.fail_under)

    @property
    def exit_code(self) -> int:
        """See `exit_codes`."""
        if self.signal is not None:
            return exit_codes.of_signal(self.signal)
        if self.stopped or self.unrun or self.unreleased or self.summary.step_failures or self.below:
            return exit_codes.FAILED
        if self.summary.infra_failures and not self.allow_failures:
            return exit_codes.UNMEASURED
        return exit_codes.OK

    @property
    def verdict(self) -> list[str]:
        """What went wrong with the run as a whole, one line each."""
        lines = []
        if self.signal is not None:
            lines.append(f"interrupted by {signal.Signals(self.signal).name}")
        elif self.stopped:
            lines.append(f"stopped early: {self.stopped}")
        if self.unrun:
            planned = self.summary.n + self.summary.unrun
            names = ", ".join(self.unrun[:10]) + (f" and {len(self.unrun) - 10} more" if len(self.unrun) > 10 else "")
            lines.append(
                f"expected {planned} results, have {self.summary.n}; without a result: {names}\n"
                f"  resume with {self.resume_with}"
            )
        if self.unreleased:
            lines.append(f"sandboxes that may still exist: {', '.join(self.unreleased)}\n  remove them: agentix gc")
        if self.below:
            lines.append(f"the mean reward is {number(self.summary.mean_reward)}, below {self.fail_under:g}")
        return lines


def print_text(ending: Ending, output: Output, *, rows: bool = True) -> None:
    """The summary for people.

    Args:
        ending: How the run ended.
        output: Where to print it.
        rows: Whether to list trials.
    """
    if rows:
        print_trials(ending.run, output, told=ending.said)
        print_unsolved(ending.run, output)
    for note in ending.said:
        output.line(f"note: {note}")
    for line in totals(ending.summary):
        output.line(line)
    for line in ending.verdict:
        output.line(line)
    output.line(f"results: {ending.run.layout.results}")


def print_trials(run: Run, output: Output, *, most: int = ROWS, told: Container[str] = ()) -> None:
    """A table with a row a trial, in the order of the dataset, cut where there are many.

    Args:
        run: The run.
        output: Where to print it.
        most: At most so many rows.
        told: Notes that are told elsewhere.
    """
    total = 0

    def counted() -> Iterator[Record]:
        nonlocal total
        for record in run:
            total += 1
            yield record

    shown = first(counted(), most, key=planned_order(run))
    if not shown:
        return
    cells = [
        [
            record.trial_id,
            result(record),
            number(record.reward),
            record.ended or "",
            seconds(record.seconds),
            notes_of(record, told=told, longest=_NOTE),
        ]
        for record in shown
    ]
    lines = table(["trial", "result", "reward", "ended", "time", "note"], cells, right=frozenset({2, 4}))
    for line in lines:
        output.line(line)
    if total > most:
        output.line(f"… and {total - most} more: agentix show {run.path} --all")
    output.line()


def print_unsolved(run: Run, output: Output, *, most: int = ROWS) -> None:
    """A line with reason and logs for every trial that is not resolved; failures of one reason stand together."""
    groups: dict[str, list[Record]] = {}
    count = 0
    for record in run:
        if record.resolved:
            continue
        count += 1
        if count <= most:
            alone = "" if record.failure_code is not None else record.trial_id
            groups.setdefault(f"{alone}\0{reason(record)}", []).append(record)
    order = planned_order(run)
    for records in groups.values():
        records.sort(key=order)
    for records in sorted(groups.values(), key=lambda found: order(found[0])):
        said = reason(records[0])
        if len(records) == 1:
            output.line(f"{records[0].trial_id}: {said}  {log_of(run, records[0])}")
            continue
        output.line(f"{plural(len(records), 'trial')}: {said}")
        for record in records[:_TOGETHER]:
            output.line(f"  {record.trial_id}  {log_of(run, record)}")
        if len(records) > _TOGETHER:
            output.line(f"  … and {len(records) - _TOGETHER} more")
    if count > most:
        output.line(f"… and {count - most} more: agentix show {run.path} --failures --all")
    if count:
        output.line()


def log_of(run: Run, record: Record) -> Path:
    """The file that tells most about a trial, else its directory."""
    directory = run.layout.trial(record.trial_id)
    attempts = directory / "attempts"
    if attempts.is_dir():
        numbers = sorted((int(p.name) for p in attempts.iterdir() if p.name.isdigit()), reverse=True)
        for name in _LOGS:
            for found in numbers[:1]:
                files = sorted((attempts / str(found)).rglob(name))
                if files:
                    return files[0]
        if numbers:
            return attempts / str(numbers[0])
    return directory


def print_json(ending: Ending, output: Output) -> None:
    """The summary for programs: one JSON object."""
    data = {
        "run_id": ending.run.path.name,
        "path": str(ending.run.path),
        "results": str(ending.run.layout.results),
        "exit_code": ending.exit_code,
        "signal": None if ending.signal is None else signal.Signals(ending.signal).name,
        "stopped": ending.stopped,
        "unrun": list(ending.unrun),
        "unreleased": list(ending.unreleased),
        "notices": list(ending.notices),
        "elapsed_s": round(ending.elapsed_s, 3),
        "summary": ending.summary.to_data(),
    }
    output.write(json.dumps(data, indent=2, allow_nan=False) + "\n")
    output.flush()


def missing(planned: Iterable[str], present: Iterable[str]) -> tuple[str, ...]:
    """The planned trials that have no result."""
    have = set(present)
    return tuple(name for name in planned if name not in have)


def count_line(kept: Sequence[str], retried: Sequence[str], to_run: int) -> str:
    """What a session is about to do."""
    parts = [f"{plural(to_run, 'trial')} to run"]
    if kept:
        parts.append(f"{len(kept)} kept")
    if retried:
        parts.append(f"{len(retried)} of them run again")
    return ", ".join(parts)
