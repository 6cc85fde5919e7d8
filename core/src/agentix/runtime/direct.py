"""A command without a supervisor: where the server is PID 1, it adopts what the command leaves itself.

A supervisor costs more than a short command does. It is needed to tell the processes of one command from those of
another, and so only where there is another: one command at a time goes without, as long as none has left anything.
"""

from __future__ import annotations

import posix
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from agentix.runtime.server import Server

GIVE_UP_S = 10.0
"""How long killing goes on before what is left is reported."""

_SWEEP_S = 0.003
_KILLED = 9
_DOUBTS = 20
"""How often the end of a command may be put off because something else has ended while it was looked at."""


class Direct:
    """The one command that runs so.

    Args:
        server: Its parent, PID 1.
        pid: Of the command.
        apart: Gives the server's other children, whose trees are not this command's.
        over: Told how it ended.
    """

    def __init__(
        self,
        server: Server,
        pid: int,
        *,
        apart: Callable[[], Collection[int]],
        over: Callable[[dict[str, Any]], None],
    ) -> None:
        self.pid = pid
        self._server = server
        self._apart = apart
        self._over = over
        self._status: int | None = None
        self._kill_at: float | None = None
        self._give_up_at = 0.0
        self._timer: list[Any] | None = None
        self._doubts = 0
        self._ended = False

    def kill(self, grace_s: float) -> None:
        """End it and everything below it."""
        from agentix.runtime import processes

        if self._ended:
            return
        now = time.monotonic()
        if self._kill_at is None:
            processes.terminate(processes.living(self._server.pid, apart=self._apart()))
            self._kill_at = now + grace_s
            self._give_up_at = self._kill_at + GIVE_UP_S
        else:
            self._kill_at = min(self._kill_at, now + grace_s)
        self._sweep_at(self._kill_at)

    def reaped(self, pid: int, status: int) -> None:
        """A child of the server has ended, which may be the command or what it left."""
        if pid == self.pid:
            self._status = status
        if self._status is not None:
            # What has ended at the same time is reaped first.
            self._server.soon(self._settle)

    def _settle(self) -> None:
        if self._ended:
            return
        empty = self._is_empty()
        if empty is None and self._doubts < _DOUBTS:
            # When that is reaped, this is asked again.
            self._doubts += 1
        elif empty or self._kill_at is None:
            self._end(left=0, empty=bool(empty))

    def _is_empty(self) -> bool | None:
        """Whether the command has left nothing; None where that cannot be told before one more has been reaped."""
        try:
            if _is_waiting_to_be_reaped():
                return None
        except ChildProcessError:
            return True
        apart = self._apart()
        if not apart:
            return False
        from agentix.runtime import processes

        if processes.living(self._server.pid, apart=apart):
            return False
        # A process that is gone before it is looked at may have forked one that was not there yet.
        return None if _has_one_more_ended() else True

    def _sweep_at(self, when: float) -> None:
        if self._timer is not None:
            self._server.forget(self._timer)
        self._timer = self._server.later(max(0.0, when - time.monotonic()), self._sweep)

    def _sweep(self) -> None:
        from agentix.runtime import processes

        if self._ended:
            return
        killed = processes.kill_all(self._server.pid, apart=self._apart())
        now = time.monotonic()
        if killed == 0 and self._status is not None and not _has_one_more_ended():
            self._end(left=0, empty=True)
        elif now >= self._give_up_at:
            self._end(left=killed, empty=False)
        else:
            self._sweep_at(now + _SWEEP_S)

    def _end(self, *, left: int, empty: bool) -> None:
        if self._ended:
            return
        self._ended = True
        if self._timer is not None:
            self._server.forget(self._timer)
        status = _KILLED if self._status is None else self._status
        self._over({**ended_with(status, reusable=empty), "left": left})


def _is_waiting_to_be_reaped() -> bool:
    """Whether a child of this process has ended.

    Raises:
        ChildProcessError: It has no children at all.
    """
    return posix.waitid(posix.P_ALL, 0, posix.WEXITED | posix.WNOHANG | posix.WNOWAIT) is not None


def _has_one_more_ended() -> bool:
    try:
        return _is_waiting_to_be_reaped()
    except ChildProcessError:
        return False


def ended_with(status: int, *, reusable: bool) -> dict[str, Any]:
    """What a command is told of its end, as a supervisor reports it."""
    return {"status": status, "reusable": reusable, "left": 0, "error": None}
