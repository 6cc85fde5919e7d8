"""What shows a run while it goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Protocol

from agentix.api import Record
from agentix.cli.api import Guard, Output, Shows
from agentix.plugins.experiments.progress.board import Board
from agentix.plugins.experiments.progress.wording import heartbeat, result_line

HEARTBEAT_S = 15.0


class Display(Shows, Protocol):
    """Shows; it never waits. What it is told by `say` is what the user has to know."""

    def note(self, text: str) -> None:
        """Show a line that stays, where anything but that is shown."""
        ...

    def result(self, record: Record, board: Board) -> None:
        """A trial has its line."""
        ...


class Plain:
    """A line for every change, each with its time, and a heartbeat.

    Args:
        output: Where the lines go.
        every_s: Seconds between two heartbeats.
        clock: The time of day as text.
    """

    interval_s = 1.0

    def __init__(
        self,
        output: Output,
        *,
        every_s: float = HEARTBEAT_S,
        clock: Callable[[], str] = lambda: time.strftime("%H:%M:%S"),
    ) -> None:
        self._output = output
        self._every_s = every_s
        self._clock = clock
        self._last = time.monotonic()

    def say(self, text: str) -> None:
        """Show a line."""
        self._output.line(f"{self._clock()} {text}")

    def note(self, text: str) -> None:
        """Show a line."""
        self.say(text)

    def result(self, record: Record, board: Board) -> None:
        """Show a result."""
        self.say(result_line(record, board))

    def tick(self, board: Board) -> None:
        """Show where everything is, now and then."""
        now = time.monotonic()
        if now - self._last >= self._every_s:
            self._last = now
            for line in heartbeat(board):
                self.say(line)

    def close(self) -> None:
        """Nothing is left to do."""


class Quiet:
    """Shows what the user has to know at once, and nothing else."""

    interval_s = 1.0

    def __init__(self, output: Output) -> None:
        self._output = output

    def say(self, text: str) -> None:
        """Show a line."""
        self._output.line(text)

    def note(self, text: str) -> None:
        """Nothing."""

    def result(self, record: Record, board: Board) -> None:
        """Nothing."""

    def tick(self, board: Board) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Guarded(Guard[Display]):
    """A display that cannot end the run."""

    def note(self, text: str) -> None:
        """Show a line that stays, where anything but that is shown."""
        self._do(lambda display: display.note(text))

    def result(self, record: Record, board: Board) -> None:
        """A trial has its line."""
        self._do(lambda display: display.result(record, board))


def make_display(output: Output, *, quiet: bool = False, plain: bool = False) -> Display:
    """The display that suits the stream.

    Args:
        output: Where it shows.
        quiet: Show as little as possible.
        plain: Never draw.
    """
    if quiet:
        return Quiet(output)
    if output.is_terminal and not plain and "CI" not in os.environ:
        from agentix.plugins.experiments.progress.live import Live

        return Live(output)
    return Plain(output)
