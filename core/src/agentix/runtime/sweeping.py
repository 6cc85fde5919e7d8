"""Calls that end or count what runs in a sandbox."""

from __future__ import annotations

import time

from agentix.runtime import processes
from agentix.runtime.call import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentix.runtime.server import Server

_KILL_ALL_S = 10.0
_SWEEP_S = 0.003


class KillAll(Call):
    """Ends every process in the sandbox but the runtime's own."""

    def __init__(self, server: Server, id: int) -> None:
        super().__init__(server, id)
        self._killed = self._doubts = 0
        self._deadline = time.monotonic() + _KILL_ALL_S
        server.wake(self)

    def step(self) -> None:
        """Kill one generation, and come back until there is none."""
        server = self.server
        count, doubtful = processes.kill_or_doubt(server.pid, everything=server.pid == 1, spared=server.own_pids())
        self._doubts += doubtful
        if (count or (doubtful and self._doubts <= processes.DOUBTS)) and time.monotonic() < self._deadline:
            self._killed += count
            server.later(_SWEEP_S, lambda: server.wake(self))
        else:
            self.finish({"killed": self._killed, "left": count})


class CountProcesses(Call):
    """Counts the processes in the sandbox besides the runtime's own."""

    def __init__(self, server: Server, id: int) -> None:
        super().__init__(server, id)
        server.wake(self)

    def step(self) -> None:
        """Count."""
        server = self.server
        self.finish(len(processes.living(server.pid, everything=server.pid == 1, spared=server.own_pids())))
