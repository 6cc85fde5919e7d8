"""Lines on a terminal that are drawn again and again, and those that stay above them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Literal, TypeVar

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from agentix.cli.output import Output, printable
from agentix.cli.wording import seconds

B = TypeVar("B")


class Redrawn(ABC, Generic[B]):
    """Redraws a few lines, each cut to the terminal's width; what has to stay is written above them.

    Args:
        output: A terminal.
        overflow: What a line that is cut ends with.
    """

    interval_s = 0.25

    def __init__(self, output: Output, *, overflow: Literal["ellipsis", "crop"] = "ellipsis") -> None:
        stream: Any = output
        self._console = Console(file=stream, force_terminal=True, highlight=False, emoji=False, markup=False)
        self._overflow: Literal["ellipsis", "crop"] = overflow
        self._live: Live | None = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    @abstractmethod
    def lines(self, board: B, *, width: int, height: int) -> Sequence[Text]:
        """What is drawn of the state of the run."""

    def say(self, text: str) -> None:
        """Show a line above the moving ones."""
        self.keep(text)

    def keep(self, text: str, *, style: str = "") -> None:
        """Show a line above the moving ones, in a style."""
        self._console.print(Text(printable(text), style=style), soft_wrap=True)

    def tick(self, board: B) -> None:
        """Draw again."""
        if self._live is None:
            return
        width = self._console.width
        lines = self.lines(board, width=width, height=self._console.height)
        for line in lines:
            line.no_wrap = True
            line.truncate(width, overflow=self._overflow)
        self._live.update(Group(*lines), refresh=True)

    def close(self) -> None:
        """Take the moving lines away."""
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()


def trial_line(trial_id: str, doing: str, *, attempt: int, took: float, width: int) -> Text:
    """One trial that runs: its name, as much of it as there is room for, what it is doing, and for how long."""
    again = f" attempt {attempt}" if attempt > 1 else ""
    state = f"{doing}{again} {seconds(took)}"
    room = max(8, width - len(state) - 4)
    name = trial_id if len(trial_id) <= room else trial_id[: room - 1] + "…"
    return Text(f"  {printable(name)}  {state}")
