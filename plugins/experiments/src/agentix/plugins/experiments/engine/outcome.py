"""How far a session of a run came, as it notes itself while it goes on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Outcome:
    """How a session ended."""

    signal: int | None = None
    stopped: str | None = None
    """Why not everything was done."""
    planned: tuple[str, ...] = ()
    """Ids of the trials of the plan."""
    began: bool = False
    """Whether there was anything to do."""
    resume_with: str = ""
    rest: str = "finished"
    """The state of the run where all was done."""
