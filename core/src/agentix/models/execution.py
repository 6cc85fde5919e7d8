"""The result of one command in a sandbox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class ExecResult:
    """A command that ended. Whatever it printed is kept as bytes."""

    exit_code: int
    """Exit status; 127 where the executable does not exist, 128+n where signal n ended it."""
    stdout: bytes = b""
    stderr: bytes = b""
    signal: str | None = None
    """Name of the signal that ended it, such as `SIGKILL`."""
    timed_out: bool = False
    duration_s: float = 0.0
    stdout_bytes: int = 0
    """How many bytes the command wrote, kept or not."""
    stderr_bytes: int = 0
    truncated: bool = False
    """Whether stdout or stderr is only the head and the tail of what was written."""

    @property
    def text(self) -> str:
        """Stdout as UTF-8; undecodable bytes become U+FFFD."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def error_text(self) -> str:
        """Stderr as UTF-8; undecodable bytes become U+FFFD."""
        return self.stderr.decode("utf-8", "replace")

    @property
    def ok(self) -> bool:
        """Whether it exited with 0 in time."""
        return self.exit_code == 0 and not self.timed_out


@dataclass(frozen=True, kw_only=True)
class OutputChunk:
    """A piece of what a running command wrote."""

    stream: Literal["stdout", "stderr"]
    data: bytes
