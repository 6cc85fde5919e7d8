"""Live progress on a terminal."""

from __future__ import annotations

import time

from rich.text import Text

from agentix.cli.board import Board
from agentix.cli.display import Reasons, event_line, record_line
from agentix.cli.output import Output
from agentix.cli.redrawn import Redrawn, trial_line
from agentix.cli.wording import codes, number, seconds
from agentix.models import Event
from agentix.records import Record

_SHOWN = 12


class LiveDisplay(Redrawn[Board]):
    """How far, what runs, what failed. Results that were not good stay above that.

    Args:
        output: A terminal.
    """

    def __init__(self, output: Output) -> None:
        super().__init__(output)
        self._reasons = Reasons()

    def on_event(self, event: Event, board: Board) -> None:
        """Keep a line for what went wrong."""
        if event.kind in ("attempt_failed", "note"):
            self.say(event_line(event))

    def on_record(self, record: Record, board: Board) -> None:
        """Keep a line for a failure."""
        if record.failure_code is not None:
            self.say(record_line(record, board, self._reasons))

    def lines(self, board: Board, *, width: int, height: int) -> list[Text]:
        """A bar, the trials that run for the longest, and the failures."""
        lines = [_bar(board, width)]
        now = time.monotonic()
        shown = max(1, min(_SHOWN, height - 4))
        for trial in board.slowest(shown):
            took = now - trial.started
            lines.append(trial_line(trial.trial_id, trial.phase, attempt=trial.attempt, took=took, width=width))
        if len(board.running) > shown:
            lines.append(Text(f"  and {len(board.running) - shown} more"))
        failures = " ".join(codes(board.summary))
        if failures:
            lines.append(Text(failures, style="red"))
        return lines


def _bar(board: Board, width: int) -> Text:
    length = max(0, min(24, width - 40))
    filled = round(length * board.done / board.to_run) if board.to_run else length
    # Plain characters, so that every terminal and encoding shows them.
    bar = f"[{'#' * filled}{'.' * (length - filled)}] " if length else ""
    mean = f"  mean {number(board.summary.mean_reward)}" if board.summary.denominator else ""
    cost = f"  ${board.summary.cost_usd.total:.2f}" if board.summary.cost_usd.known else ""
    return Text(f"{bar}{board.done}/{board.to_run}  {seconds(board.elapsed)}{mean}{cost}", style="bold")
