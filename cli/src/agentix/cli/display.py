"""What shows a run while it goes on."""

from __future__ import annotations

import os
import time
from typing import Protocol

from agentix.cli.board import Board
from agentix.cli.guard import Guard, Shows
from agentix.cli.output import Output
from agentix.cli.wording import heartbeat, number, reason, seconds
from agentix.models import Event
from agentix.records import Record

HEARTBEAT_S = 30.0
_REASONS = 1000


class Display(Shows, Protocol):
    """Shows; it never fails and never waits."""

    def on_event(self, event: Event, board: Board) -> None:
        """Something happened in a trial."""
        ...

    def on_record(self, record: Record, board: Board) -> None:
        """A trial has its result."""
        ...


class Plain:
    """A line for every change, and a heartbeat where there is none.

    Args:
        output: Where the lines go.
        verbose: Also show when trials start and enter a phase.
    """

    interval_s = 1.0

    def __init__(self, output: Output, *, verbose: bool = False) -> None:
        self._output = output
        self._verbose = verbose
        self._last = time.monotonic()
        self._reasons = Reasons()

    def say(self, text: str) -> None:
        """Show a line."""
        self._output.line(text)
        self._last = time.monotonic()

    def on_event(self, event: Event, board: Board) -> None:
        """Show what ended an attempt; with `verbose`, everything."""
        line = event_line(event)
        if event.kind in ("attempt_failed", "note") or (self._verbose and event.kind != "trial_finished"):
            self.say(line)

    def on_record(self, record: Record, board: Board) -> None:
        """Show a result."""
        self.say(record_line(record, board, self._reasons))

    def tick(self, board: Board) -> None:
        """Show that the run lives, where nothing else did for a while."""
        if time.monotonic() - self._last >= HEARTBEAT_S:
            self.say(heartbeat(board))

    def close(self) -> None:
        """Nothing is left to do."""


class Quiet:
    """Shows nothing but what the user has to know at once."""

    interval_s = 1.0

    def __init__(self, output: Output) -> None:
        self._output = output

    def say(self, text: str) -> None:
        """Show a line."""
        self._output.line(text)

    def on_event(self, event: Event, board: Board) -> None:
        """Nothing."""

    def on_record(self, record: Record, board: Board) -> None:
        """Nothing."""

    def tick(self, board: Board) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Guarded(Guard[Display]):
    """A display that cannot end the run."""

    def on_event(self, event: Event, board: Board) -> None:
        """Something happened in a trial."""
        self._do(lambda display: display.on_event(event, board))

    def on_record(self, record: Record, board: Board) -> None:
        """A trial has its result."""
        self._do(lambda display: display.on_record(record, board))


def make_display(output: Output, *, quiet: bool, verbose: bool, plain: bool = False) -> Display:
    """The display that suits the stream.

    Args:
        output: Where it shows.
        quiet: Show as little as possible.
        verbose: Show everything, line by line.
        plain: Never draw.
    """
    if quiet:
        return Quiet(output)
    if output.is_terminal and not plain and not verbose and "CI" not in os.environ:
        from agentix.cli.live import LiveDisplay

        return LiveDisplay(output)
    return Plain(output, verbose=verbose)


def event_line(event: Event) -> str:
    """One event with everything that identifies it."""
    if event.kind == "attempt_failed":
        parts = [event.trial_id, f"attempt {event.attempt} failed"]
    else:
        parts = [event.trial_id, event.kind.replace("_", " ")]
        if event.attempt > 1:
            parts.append(f"attempt {event.attempt}")
    if event.phase:
        parts.append(event.phase)
    if event.message:
        parts.append(event.message)
    return " · ".join(" ".join(part.split()) for part in parts)


class Reasons:
    """What failures were said to have for a reason, so that each reason is said in full once."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def of(self, record: Record) -> str:
        """The reason, or which trial had the same."""
        said = reason(record)
        first = self._first.setdefault(said, record.trial_id)
        if first == record.trial_id:
            if len(self._first) > _REASONS:
                del self._first[next(iter(self._first))]
            return said
        detail = f" ({record.failure_detail})" if record.failure_detail else ""
        return f"{record.failure_code}{detail}: the same as {first}"


def record_line(record: Record, board: Board, reasons: Reasons) -> str:
    """One result and how far the run is."""
    attempts = f", attempt {record.attempts}" if record.attempts > 1 else ""
    said = f"reward {number(record.reward)}" if record.failure_code is None else reasons.of(record)
    if record.failure_code is None and record.ended not in (None, "completed"):
        said += f", ended by {record.ended}"
    return f"[{board.done}/{board.to_run}] {record.trial_id}  {said}  ({seconds(record.seconds)}{attempts})"
