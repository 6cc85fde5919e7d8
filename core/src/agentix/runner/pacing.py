"""Holds new trials back while the event loop is late, so that thousands of trials do not all wait for each other."""

from __future__ import annotations

from collections import deque

import anyio

PULSE_S = 0.02
LATE_S = 0.01
"""How late a pulse may come before starting more trials would only make everything later."""
_CALM_STARTS = 32
_LATE_STARTS_PER_S = 100


class Pacer:
    """Admits trials: at once while the loop is on time, else some at each pulse, and always a few.

    A loop that is late has more ready work than it can do, so holding back new work costs no throughput; what
    has begun ends sooner.
    """

    def __init__(self) -> None:
        self._late = False
        self._waiting: deque[anyio.Event] = deque()

    async def admitted(self) -> None:
        """Wait until another trial may start."""
        if self._late or self._waiting:
            turn = anyio.Event()
            self._waiting.append(turn)
            await turn.wait()

    async def run(self) -> None:
        """Feel the pulse of the loop, until cancelled."""
        while True:
            began = anyio.current_time()
            await anyio.sleep(PULSE_S)
            took = anyio.current_time() - began
            self._late = took - PULSE_S > LATE_S
            starts = max(1, int(took * _LATE_STARTS_PER_S)) if self._late else _CALM_STARTS
            for _ in range(min(starts, len(self._waiting))):
                self._waiting.popleft().set()
