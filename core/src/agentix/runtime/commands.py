"""How the server has commands run: one at a time by itself where it can, all others under supervisors."""

from __future__ import annotations

from agentix.runtime import spawning
from agentix.runtime.direct import Direct, ended_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from agentix.runtime.command import Command
    from agentix.runtime.server import Server
    from agentix.runtime.supervisors import Handle, Supervisors

_AHEAD_S = 0.25


class Commands:
    """All commands of one server.

    Args:
        server: The server.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        # What a command leaves comes to the server then, and nothing else does.
        self._alone = server.pid == 1
        self._direct: tuple[Direct, Command] | None = None
        self._supervisors: Supervisors | None = None
        self._planned: list[Any] | None = None

    @property
    def pids(self) -> set[int]:
        """Every supervisor's pid."""
        return set() if self._supervisors is None else self._supervisors.pids

    @property
    def is_direct(self) -> bool:
        """Whether the server is running a command by itself."""
        return self._direct is not None

    def share(self) -> None:
        """Have every command supervised from now on: there are other processes whose children come to the server."""
        self._alone = False

    def fork_ahead(self) -> None:
        """Have a supervisor waiting, where the next command needs one."""
        self._planned = None
        if not self._is_free():
            self._supervised().fork_ahead()

    def start(
        self, command: Command, spec: dict[str, Any], descriptors: Sequence[int], *, lasting: bool = False
    ) -> Handle | Direct:
        """Run a command.

        Args:
            command: Told when the process has ended.
            spec: The command as a supervisor takes it.
            descriptors: Its stdin or -1, stdout and stderr.
            lasting: It goes on while others come and go.
        """
        started: Handle | Direct | None = None
        if not lasting and not spec["switch"] and not spec["pty"] and self._is_free():
            started = self._start_directly(command, spec, descriptors)
        if started is None:
            started = self._supervised().start(command, spec, descriptors)
        if self._planned is None:
            # Not at once: a short command is over, or gives its own supervisor back, before another is needed.
            self._planned = self._server.later(_AHEAD_S, self.fork_ahead)
        return started

    def reaped(self, pid: int, status: int) -> None:
        """A child of the server has ended."""
        if self._direct is not None:
            self._direct[0].reaped(pid, status)
        if self._supervisors is not None:
            self._supervisors.reaped(pid, status)

    def _is_free(self) -> bool:
        return self._alone and self._direct is None

    def _supervised(self) -> Supervisors:
        if self._supervisors is None:
            from agentix.runtime.supervisors import Supervisors

            self._supervisors = Supervisors(self._server)
        return self._supervisors

    def _start_directly(self, command: Command, spec: dict[str, Any], descriptors: Sequence[int]) -> Direct | None:
        try:
            with self._server.exposure:
                pid, status = spawning.spawn(spec, descriptors, patient=False)
        except OSError:
            # A supervisor has the time to try again, and the words for what is wrong.
            return None
        direct = Direct(self._server, pid, apart=lambda: self.pids, over=self._direct_ended)
        self._direct = direct, command
        if not pid:
            # Whoever started it shall know of it first.
            self._server.soon(lambda: self._direct_ended(ended_with(status, reusable=True)))
        return direct

    def _direct_ended(self, ended: dict[str, Any]) -> None:
        if self._direct is None:
            return
        command = self._direct[1]
        self._direct = None
        self._alone = self._alone and ended["reusable"]
        if self._supervisors is not None:
            self._supervisors.let_go()
        command.ended(ended)
