"""How a command ended."""

from __future__ import annotations

from dataclasses import dataclass

TRY_LATER = 75
"""The exit status (EX_TEMPFAIL of sysexits.h) by which a command asks to be tried again later."""

_SHOWN = 400


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """A command that ended, with the head and the tail of what it wrote."""

    command: str
    exit_code: int
    """Exit status; 127 where the program does not exist, 128+n where signal n ended it."""
    signal: str | None = None
    """Name of the signal that ended it."""
    timed_out: bool = False
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    limit_s: float
    """Seconds that it might take."""
    killed: bool = False
    """Whether it left processes running, which were then ended."""

    @property
    def ok(self) -> bool:
        """Whether it exited with 0 in time."""
        return self.exit_code == 0 and not self.timed_out

    @property
    def try_later(self) -> bool:
        """Whether it asks to be tried again later."""
        return self.exit_code == TRY_LATER and self.signal is None and not self.timed_out

    def describe(self) -> str:
        """How it ended in a line, with the last line that it wrote."""
        if self.timed_out:
            how = f"timed out after {self.limit_s:g} s"
        elif self.signal is not None:
            how = f"ended by {self.signal}"
        else:
            how = f"exit status {self.exit_code}"
        last = next((line for text in (self.stderr, self.stdout) for line in _backwards(text)), "")
        return f"{self.command}: {how}" + (f": {last[:_SHOWN]}" if last else "")


def _backwards(text: str) -> list[str]:
    return [line.strip() for line in reversed(text.splitlines()) if line.strip()]
