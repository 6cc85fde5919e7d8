"""A running command as the server sees it: its pipes, its supervisor, its end."""

from __future__ import annotations

import errno
import posix
import sys

from agentix.runtime import wire
from agentix.runtime.call import Call
from agentix.runtime.kept import Kept
from agentix.runtime.pipes import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agentix.runtime.direct import Direct
    from agentix.runtime.server import Server
    from agentix.runtime.stdin import Input
    from agentix.runtime.supervisors import Handle

GRACE_S = 1.0
"""Between SIGTERM and SIGKILL."""

_TERMINAL_SIZE = (40).to_bytes(2, sys.byteorder) + (120).to_bytes(2, sys.byteorder) + bytes(4)


class Command(Call):
    """One command.

    Args:
        server: The server it came to.
        id: The host's number for it.
        spec: What its supervisor gets.
        options: `stdin` (whether input will come), `keep` (how many bytes of each stream are sent at the end) or
            None to send output as it comes, `timeout_s`, `pty`.
        owner: The uid and gid that shall be able to reopen the pipes, where they are not the server's own.
    """

    def __init__(
        self, server: Server, id: int, spec: dict[str, Any], options: dict[str, Any], owner: tuple[int, int] | None
    ) -> None:
        super().__init__(server, id)
        self._ended: dict[str, Any] | None = None
        self._timed_out = False
        self._input: Input | None = None
        self._timer: list[Any] | None = None
        opened: list[int] = []
        try:
            open_ends = self._open_terminal if options["pty"] else self._open_pipes
            theirs = open_ends(opened, stdin=options["stdin"])
            if owner:
                for fd in set(theirs) - {-1}:
                    posix.fchown(fd, *owner)
            self.supervisor: Direct | Handle = server.commands.start(self, spec, theirs)
        except BaseException:
            for fd in opened:
                posix.close(fd)
            raise
        for fd in set(theirs) - {-1}:
            posix.close(fd)
        keep = options["keep"]
        channels = (wire.STDOUT,) if options["pty"] else (wire.STDOUT, wire.STDERR)
        self._outputs = [
            Output(self, fd, channel, None if keep is None else Kept(keep), terminal=options["pty"])
            for fd, channel in zip(self._reading, channels, strict=True)
        ]
        if self._writing >= 0:
            from agentix.runtime.stdin import Input

            self._input = Input(self, self._writing, terminal=options["pty"])
        if options["timeout_s"] is not None:
            self._timer = server.later(options["timeout_s"], self._time_out)

    def _open_pipes(self, opened: list[int], *, stdin: bool) -> list[int]:
        self._writing, read = -1, -1
        if stdin:
            read, self._writing = posix.pipe2(posix.O_CLOEXEC)
            opened += [read, self._writing]
        stdout, out = posix.pipe2(posix.O_CLOEXEC)
        opened += [stdout, out]
        stderr, err = posix.pipe2(posix.O_CLOEXEC)
        opened += [stderr, err]
        self._reading = [stdout, stderr]
        return [read, out, err]

    def _open_terminal(self, opened: list[int], *, stdin: bool) -> list[int]:
        import fcntl
        import termios

        ours, theirs = posix.openpty()
        opened += [ours, theirs]
        fcntl.ioctl(ours, termios.TIOCSWINSZ, _TERMINAL_SIZE)
        self._reading = [ours]
        self._writing = -1
        if stdin:
            self._writing = posix.dup(ours)
            opened.append(self._writing)
        return [-1, theirs, theirs]

    def receive(self, payload: bytes) -> None:
        """Pass input on."""
        if self._input is None:
            self.consumed(len(payload))
        else:
            self._input.write(payload)

    def end_input(self) -> None:
        """Close the command's stdin once it has taken what came."""
        if self._input is not None:
            self._input.end()

    def add_credit(self, amount: int) -> None:
        """Go on sending output."""
        super().add_credit(amount)
        self.server.wake(self)

    def cancel(self) -> None:
        """Kill the command's whole tree; its result still comes."""
        self.kill(GRACE_S)

    def kill(self, grace_s: float) -> None:
        """Ask the supervisor to end the tree."""
        if self._ended is None:
            self.supervisor.kill(grace_s)

    def _time_out(self) -> None:
        self._timed_out = self._ended is None
        self.kill(GRACE_S)

    def ended(self, ended: dict[str, Any]) -> None:
        """The process has ended: what it wrote until now is its output, whoever still holds the pipes."""
        if self._ended is not None:
            return
        self._ended = ended
        if self._timer is not None:
            self.server.forget(self._timer)
        if self._input is not None:
            self._input.close()
            self._input = None
        for output in self._outputs:
            output.process_ended(nobody_left=ended["reusable"])
        self.server.wake(self)

    def step(self) -> None:
        """Send what there is credit for, then the result."""
        if self.id not in self.server.calls:
            return
        if self._ended is None:
            for output in self._outputs:
                output.pump()
            return
        for output in self._outputs:
            if not output.pump():
                return
        if self._ended["error"]:
            self._fail_to_start(self._ended["error"])
            return
        self.finish(
            {
                "status": self._ended["status"],
                "written": [output.total for output in self._outputs],
                "timed_out": self._timed_out,
                "left": self._ended["left"],
            }
        )

    def _fail_to_start(self, error: dict[str, Any]) -> None:
        code = error["errno"] or errno.EIO
        message = posix.strerror(code)
        if error["doing"] == "user":
            message = f"the runtime could not become the user: {message}"
        elif not error["path"]:
            message = f"the command could not be started: {message}"
        self.fail(OSError(code, message, error["path"] or None))
