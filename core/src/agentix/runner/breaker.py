"""Stops a run whose infrastructure keeps failing for one cause."""

from __future__ import annotations

from agentix.models import Failure, Rollout
from agentix.runner.outcome import one_line


class Breaker:
    """Counts infrastructure failures of one cause in a row.

    Args:
        after: How many are too many; `None` for never.
    """

    def __init__(self, after: int | None) -> None:
        self._after = after
        self._cause: tuple[str, str | None, str] | None = None
        self._count = 0

    def reason(self, rollout: Rollout) -> str | None:
        """Why no more trials should start, now that this one has ended."""
        failure = rollout.failure
        if self._after is None:
            return None
        if failure is None or failure.code.is_agents:
            self._cause, self._count = None, 0
            return None
        cause = _cause(failure)
        self._count = self._count + 1 if cause == self._cause else 1
        self._cause = cause
        if self._count < self._after:
            return None
        times = "once" if self._count == 1 else f"{self._count} times in a row"
        return f"stopped: the same failure {times}, at last {one_line(failure)}"


def _cause(failure: Failure) -> tuple[str, str | None, str]:
    return failure.code, failure.detail, failure.boundary
