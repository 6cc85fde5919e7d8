"""A display that cannot end the run."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from agentix.cli.runlog import log


class Shows(Protocol):
    """What every display has."""

    interval_s: float
    """How often to call `tick`."""

    def say(self, text: str) -> None:
        """Show a line that stays."""
        ...

    def tick(self, board: Any) -> None:
        """Time has passed."""
        ...

    def close(self) -> None:
        """Leave the screen as what follows wants it."""
        ...


D = TypeVar("D", bound=Shows)


class Guard(Generic[D]):
    """Passes everything on; after the first error it shows nothing more and the run goes on.

    A kind of display that is told more has a guard of its own, which passes that on by `_do`.

    Args:
        display: What shows.
    """

    def __init__(self, display: D) -> None:
        self.interval_s = display.interval_s
        self._display: D | None = display

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def say(self, text: str) -> None:
        """Show a line that stays."""
        self._do(lambda display: display.say(text))

    def tick(self, board: Any) -> None:
        """Time has passed."""
        self._do(lambda display: display.tick(board))

    def close(self) -> None:
        """Leave the screen as what follows wants it."""
        self._do(lambda display: display.close())

    def _do(self, call: Callable[[D], None]) -> None:
        if self._display is None:
            return
        try:
            call(self._display)
        except Exception:
            self._display = None
            log.exception("the display failed and is off")
