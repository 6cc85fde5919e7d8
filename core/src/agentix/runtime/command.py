"""A running command as the server sees it: its pipes, its supervisor, its end."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import sys
import termios

from agentix.runtime import wire
from agentix.runtime.call import Call
from agentix.runtime.kept import Kept

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agentix.runtime.server import Server
    from agentix.runtime.supervisors import Handle

GRACE_S = 1.0
"""Between SIGTERM and SIGKILL."""

_PTY_DRAIN_S = 0.05
_TERMINAL_SIZE = (40).to_bytes(2, sys.byteorder) + (120).to_bytes(2, sys.byteorder) + bytes(4)
_READS_A_TURN = 4


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
                    os.fchown(fd, *owner)
            self.supervisor: Handle = server.supervisors.start(self, spec, theirs)
        except BaseException:
            for fd in opened:
                os.close(fd)
            raise
        for fd in set(theirs) - {-1}:
            os.close(fd)
        keep = options["keep"]
        channels = (wire.STDOUT,) if options["pty"] else (wire.STDOUT, wire.STDERR)
        self._outputs = [
            Output(self, fd, channel, None if keep is None else Kept(keep), terminal=options["pty"])
            for fd, channel in zip(self._reading, channels, strict=True)
        ]
        if self._writing >= 0:
            self._input = Input(self, self._writing, terminal=options["pty"])
        if options["timeout_s"] is not None:
            self._timer = server.later(options["timeout_s"], self._time_out)

    def _open_pipes(self, opened: list[int], *, stdin: bool) -> list[int]:
        self._writing, read = -1, -1
        if stdin:
            read, self._writing = os.pipe2(os.O_CLOEXEC)
            opened += [read, self._writing]
        stdout, out = os.pipe2(os.O_CLOEXEC)
        opened += [stdout, out]
        stderr, err = os.pipe2(os.O_CLOEXEC)
        opened += [stderr, err]
        self._reading = [stdout, stderr]
        return [read, out, err]

    def _open_terminal(self, opened: list[int], *, stdin: bool) -> list[int]:
        ours, theirs = os.openpty()
        opened += [ours, theirs]
        fcntl.ioctl(ours, termios.TIOCSWINSZ, _TERMINAL_SIZE)
        self._reading = [ours]
        self._writing = -1
        if stdin:
            self._writing = os.dup(ours)
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
        message = os.strerror(code)
        if error["doing"] == "user":
            message = f"the runtime could not become the user: {message}"
        elif not error["path"]:
            message = f"the command could not be started: {message}"
        self.fail(OSError(code, message, error["path"] or None))


class Output:
    """The reading end of a pipe or terminal."""

    def __init__(self, command: Command, fd: int, channel: int, kept: Kept | None, *, terminal: bool) -> None:
        self.total = 0
        self._command = command
        self._server = command.server
        self._fd = fd
        self._channel = channel
        self._kept = kept
        self._terminal = terminal
        self._remaining: int | None = None
        self._closed = False
        self._nobody_left = False
        self._over = False
        self._tail: memoryview | None = None
        os.set_blocking(fd, False)
        self._server.watch(fd, select.EPOLLIN | (0 if kept is not None else select.EPOLLONESHOT), self._readable)

    def _readable(self, events: int) -> None:
        if self._over:
            self._discard()
        elif self._kept is None:
            self._server.wake(self._command)
        else:
            for _ in range(_READS_A_TURN):
                if len(self._read(wire.CHUNK)) < wire.CHUNK:
                    break

    def _read(self, most: int) -> bytes:
        if self._remaining is not None:
            most = min(most, self._remaining)
        if self._closed or most <= 0:
            return b""
        try:
            piece = os.read(self._fd, most)
        except BlockingIOError:
            return b""
        except OSError:
            # EIO is how a terminal says that its other side is closed.
            piece = b""
        if not piece:
            self._close()
            return b""
        self.total += len(piece)
        if self._remaining is not None:
            self._remaining -= len(piece)
        if self._kept is not None:
            self._kept.add(piece)
        return piece

    def process_ended(self, *, nobody_left: bool) -> None:
        """Fix what belongs to the output: no more than lies in the pipe now."""
        self._nobody_left = nobody_left
        if self._closed:
            return
        if self._terminal:
            # What was written to a terminal arrives a moment later, and its end tells when all of it has.
            self._server.later(_PTY_DRAIN_S, self._terminal_drained)
            return
        waiting = fcntl.ioctl(self._fd, termios.FIONREAD, bytes(4))
        self._remaining = int.from_bytes(waiting, sys.byteorder)
        if self._kept is not None:
            while self._read(wire.CHUNK):
                pass
            self._finish()

    def _terminal_drained(self) -> None:
        self._remaining = 0
        self._server.wake(self._command)

    def pump(self) -> bool:
        """Send on what there is; whether everything is sent."""
        command = self._command
        if self._kept is not None:
            return self._pump_kept()
        while command.credit > 0 and not self._server.congested:
            piece = self._read(min(wire.CHUNK, command.credit))
            if not piece:
                break
            command.send(self._channel, piece)
        if self._closed or self._remaining == 0:
            self._finish()
            return True
        if command.credit <= 0:
            return False
        if self._server.congested:
            self._server.wake(command)
        elif self._remaining is None:
            self._server.rearm(self._fd, select.EPOLLIN | select.EPOLLONESHOT)
        return False

    def _pump_kept(self) -> bool:
        if self._command._ended is None:
            return False
        assert self._kept is not None
        if self._terminal and not self._closed and self._remaining != 0:
            return False
        self._finish()
        if self._tail is None:
            self._tail = memoryview(self._kept.value())
        command = self._command
        while self._tail and command.credit > 0:
            if self._server.congested:
                self._server.wake(command)
                return False
            size = min(wire.CHUNK, command.credit)
            command.send(self._channel, self._tail[:size])
            self._tail = self._tail[size:]
        return not self._tail

    def _finish(self) -> None:
        if self._over:
            return
        self._over = True
        if self._closed:
            return
        if self._nobody_left:
            self._close()
        else:
            # Closing would kill by SIGPIPE what the command left running.
            self._server.rearm(self._fd, select.EPOLLIN)

    def _discard(self) -> None:
        for _ in range(_READS_A_TURN):
            try:
                piece = os.read(self._fd, wire.CHUNK)
            except BlockingIOError:
                return
            except OSError:
                piece = b""
            if not piece:
                self._close()
                return

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            self._server.unwatch(self._fd)
            os.close(self._fd)
            self._server.wake(self._command)


class Input:
    """The writing end of a command's stdin."""

    def __init__(self, command: Command, fd: int, *, terminal: bool) -> None:
        self._command = command
        self._server = command.server
        self._fd = fd
        self._terminal = terminal
        self._pending = bytearray()
        self._ended = False
        self._closed = False
        self._last = b"\n"
        os.set_blocking(fd, False)
        self._server.watch(fd, 0, self._writable)
        self._armed = False

    def write(self, payload: bytes) -> None:
        """Take more input; how much can pile up is bounded by the window."""
        if self._closed:
            self._command.consumed(len(payload))
            return
        self._pending += payload
        self._flush()

    def end(self) -> None:
        """Close once everything is written."""
        self._ended = True
        self._flush()

    def close(self) -> None:
        """Drop what was not taken."""
        if not self._closed:
            self._closed = True
            self._server.unwatch(self._fd)
            os.close(self._fd)
            self._command.consumed(len(self._pending))
            self._pending.clear()

    def _writable(self, events: int) -> None:
        if events & select.EPOLLERR and not self._pending:
            self.close()
            return
        self._flush()

    def _flush(self) -> None:
        while self._pending and not self._closed:
            try:
                written = os.write(self._fd, self._pending[: wire.CHUNK])
            except BlockingIOError:
                self._arm(True)
                return
            except OSError:
                self.close()
                return
            self._last = bytes(self._pending[written - 1 : written])
            del self._pending[:written]
            self._command.consumed(written)
        if self._closed:
            return
        self._arm(False)
        if self._ended:
            if self._terminal:
                # A terminal's end of input is a character, which on an unfinished line only flushes that line.
                try:
                    os.write(self._fd, b"\x04" if self._last == b"\n" else b"\x04\x04")
                except OSError:
                    pass
            self.close()

    def _arm(self, wanted: bool) -> None:
        if wanted != self._armed:
            self._armed = wanted
            self._server.rearm(self._fd, select.EPOLLOUT if wanted else 0)
