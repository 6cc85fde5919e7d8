"""Live progress on a terminal."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from agentix.cli.board import Board
from agentix.cli.display import Reasons, event_line, record_line
from agentix.cli.output import Output, printable
from agentix.cli.wording import number, seconds
from agentix.models import Event
from agentix.records import Record

_SHOWN = 12


class LiveDisplay:
    """Redraws a few lines: how far, what runs, what failed. Results that were not good stay above them.

    Args:
        output: A terminal.
    """

    interval_s = 0.25

    def __init__(self, output: Output) -> None:
        stream: Any = output
        self._console = Console(file=stream, force_terminal=True, highlight=False, emoji=False, markup=False)
        self._live: Live | None = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()
        self._reasons = Reasons()

    def say(self, text: str) -> None:
        """Show a line above the moving ones."""
        self._console.print(Text(printable(text)), soft_wrap=True)

    def on_event(self, event: Event, board: Board) -> None:
        """Keep a line for what went wrong."""
        if event.kind in ("attempt_failed", "note"):
            self.say(event_line(event))

    def on_record(self, record: Record, board: Board) -> None:
        """Keep a line for a failure."""
        if record.failure_code is not None:
            self.say(record_line(record, board, self._reasons))

    def tick(self, board: Board) -> None:
        """Draw again."""
        if self._live is not None:
            self._live.update(Group(*self._lines(board)), refresh=True)

    def close(self) -> None:
        """Take the moving lines away."""
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()

    def _lines(self, board: Board) -> list[Text]:
        width = self._console.width
        lines = [self._bar(board, width)]
        now = time.monotonic()
        shown = max(1, min(_SHOWN, self._console.height - 4))
        for trial in board.slowest(shown):
            attempt = f" attempt {trial.attempt}" if trial.attempt > 1 else ""
            state = f"{trial.phase}{attempt} {seconds(now - trial.started)}"
            room = max(8, width - len(state) - 4)
            name = trial.trial_id if len(trial.trial_id) <= room else trial.trial_id[: room - 1] + "…"
            lines.append(Text(f"  {printable(name)}  {state}"))
        if len(board.running) > shown:
            lines.append(Text(f"  and {len(board.running) - shown} more"))
        failures = " ".join(f"{code} {count}" for code, count in sorted(board.summary.by_code.items(), key=str))
        if failures:
            lines.append(Text(failures, style="red"))
        for line in lines:
            line.no_wrap = True
            line.truncate(width, overflow="ellipsis")
        return lines

    def _bar(self, board: Board, width: int) -> Text:
        length = max(0, min(24, width - 40))
        filled = round(length * board.done / board.to_run) if board.to_run else length
        # Plain characters, so that every terminal and encoding shows them.
        bar = f"[{'#' * filled}{'.' * (length - filled)}] " if length else ""
        mean = f"  mean {number(board.summary.mean_reward)}" if board.summary.denominator else ""
        cost = f"  ${board.summary.cost_usd.total:.2f}" if board.summary.cost_usd.known else ""
        return Text(f"{bar}{board.done}/{board.to_run}  {seconds(board.elapsed)}{mean}{cost}", style="bold")
