"""A display that cannot end the run."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from agentix.cli.board import Board
from agentix.cli.display import Display
from agentix.cli.runlog import log
from agentix.models import Event
from agentix.records import Record


class Guarded:
    """Passes everything on; after the first error it shows nothing more and the run goes on.

    Args:
        display: What shows.
    """

    def __init__(self, display: Display) -> None:
        self.interval_s = display.interval_s
        self._display: Display | None = display

    def __enter__(self) -> Guarded:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def say(self, text: str) -> None:
        """Show a line that stays."""
        self._do(lambda display: display.say(text))

    def on_event(self, event: Event, board: Board) -> None:
        """Something happened in a trial."""
        self._do(lambda display: display.on_event(event, board))

    def on_record(self, record: Record, board: Board) -> None:
        """A trial has its result."""
        self._do(lambda display: display.on_record(record, board))

    def tick(self, board: Board) -> None:
        """Time has passed."""
        self._do(lambda display: display.tick(board))

    def close(self) -> None:
        """Leave the screen as the summary wants it."""
        self._do(lambda display: display.close())

    def _do(self, call: Callable[[Display], None]) -> None:
        if self._display is None:
            return
        try:
            call(self._display)
        except Exception:
            self._display = None
            log.exception("the display failed and is off")
