"""The server's end of a command's output."""

from __future__ import annotations

import posix
import select
import sys

from agentix.runtime import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentix.runtime.command import Command
    from agentix.runtime.kept import Kept

_TERMINAL_DRAIN_S = 0.05
_TERMINAL_HOLDS = 1 << 16
"""More than a terminal ever has under way, so that what goes on being written to it does not come for ever."""
_READS_A_TURN = 4


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
        self._process_ended = False
        self._nobody_left = False
        self._hung_up = False
        self._over = False
        self._tail: memoryview | None = None
        posix.set_blocking(fd, False)
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
            if self._remaining == 0:
                self._server.wake(self._command)

    def _read(self, most: int) -> bytes:
        if self._remaining is not None:
            most = min(most, self._remaining)
        if self._closed or self._hung_up or most <= 0:
            return b""
        try:
            piece = posix.read(self._fd, most)
        except BlockingIOError:
            return b""
        except OSError:
            # EIO is how a terminal says that its other side is closed. Closing this side too would send SIGHUP to
            # a process that has closed its files and is about to exit.
            if not self._process_ended:
                self._hung_up = True
                self._server.unwatch(self._fd)
                return b""
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
        self._process_ended = True
        self._nobody_left = nobody_left or self._hung_up
        if self._hung_up:
            self._remaining = 0
        if self._closed or self._hung_up:
            return
        if self._terminal:
            # What was written to a terminal arrives a moment later, and its end tells when all of it has.
            self._remaining = _TERMINAL_HOLDS
            self._server.later(_TERMINAL_DRAIN_S, self._look_at_terminal)
            return
        if nobody_left and self._kept is not None:
            # Whoever could write is gone: mostly this finds the end, and nothing has to be asked for.
            for _ in range(_READS_A_TURN):
                if not self._read(wire.CHUNK):
                    break
            if self._closed:
                return
        import fcntl
        import termios

        waiting = fcntl.ioctl(self._fd, termios.FIONREAD, bytes(4))
        self._remaining = int.from_bytes(waiting, sys.byteorder)
        if self._kept is not None:
            while self._read(wire.CHUNK):
                pass
            self._finish()

    def _look_at_terminal(self) -> None:
        """Take it for drained where nothing has come for a moment; what nobody could take yet still belongs to it."""
        if self._closed:
            return
        waiting = select.poll()
        waiting.register(self._fd, select.POLLIN)
        if self._remaining and waiting.poll(0):
            self._readable(select.EPOLLIN)
            self._server.later(_TERMINAL_DRAIN_S, self._look_at_terminal)
            return
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
        elif (self._remaining is None or self._terminal) and not self._hung_up:
            self._server.rearm(self._fd, select.EPOLLIN | select.EPOLLONESHOT)
        return False

    def _pump_kept(self) -> bool:
        if self._kept is None or not self._process_ended:
            return False
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
                piece = posix.read(self._fd, wire.CHUNK)
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
            posix.close(self._fd)
            self._server.wake(self._command)
