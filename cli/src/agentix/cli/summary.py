"""What is said at the end of a run."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentix.cli.ending import RunEnding
from agentix.cli.order import first, planned_order
from agentix.cli.output import Output
from agentix.cli.table import table
from agentix.cli.wording import notes_of, number, plural, reason, result, seconds, totals
from agentix.records import Record, Run

ROWS = 40
"""How many trials are listed where nobody asks for more."""
_NOTE = 72
_TOGETHER = 3
_LOGS = ("test-stdout.txt", "agent-error.txt", "agent.log", "failure.json", "stdout.txt", "stderr.txt")


@dataclass(frozen=True, kw_only=True)
class Ending(RunEnding):
    """How a run of `agentix rollout` ended."""

    said: tuple[str, ...] = ()
    """What providers have said, once for all trials."""
    notices: tuple[str, ...] = ()

    @property
    def verdict(self) -> list[str]:
        """What went wrong with the run as a whole, one line each."""
        lines = []
        if self.signal is not None:
            lines.append(f"interrupted by {self.signal_name}")
        elif self.stopped:
            lines.append(f"stopped early: {self.stopped}")
        if self.unrun:
            lines.append(f"{self.lacking}\n  resume with {self.resume_with}")
        return [*lines, *self.last_words()]

    def own_data(self) -> Mapping[str, object]:
        """The notices."""
        return {"notices": list(self.notices)}


def print_text(ending: Ending, run: Run, output: Output) -> None:
    """The summary for people.

    Args:
        ending: How the run ended.
        run: The run.
        output: Where to print it.
    """
    print_trials(run, output, told=ending.said)
    print_unsolved(run, output)
    for note in ending.said:
        output.line(f"note: {note}")
    for line in (*totals(ending.summary), *ending.verdict):
        output.line(line)
    output.line(f"results: {ending.layout.results}")


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
    header = ["trial", "result", "reward", "ended", "time", "note"]
    lines = table(header, cells, right=frozenset({2, 4}), width=output.width)
    for line in lines:
        output.line(line)
    if total > most:
        output.line(f"… and {total - most} more: agentix show {run.path} --all")
    output.line()


def notes_of_all(run: Run) -> tuple[str, ...]:
    """The notes that every trial of a run has, of several trials."""
    shared: tuple[str, ...] = ()
    count = 0
    for count, record in enumerate(run, start=1):
        had = frozenset(record.notes)
        shared = record.notes if count == 1 else tuple(note for note in shared if note in had)
    return shared if count > 1 else ()


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


def count_line(kept: Sequence[str], retried: Sequence[str], to_run: int) -> str:
    """What a session is about to do."""
    parts = [f"{plural(to_run, 'trial')} to run"]
    if kept:
        parts.append(f"{len(kept)} kept")
    if retried:
        parts.append(f"{len(retried)} of them run again")
    return ", ".join(parts)
