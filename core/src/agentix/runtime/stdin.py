"""The server's end of a command's input."""

from __future__ import annotations

import posix
import select

from agentix.runtime import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentix.runtime.command import Command


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
        posix.set_blocking(fd, False)
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
            posix.close(self._fd)
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
                written = posix.write(self._fd, self._pending[: wire.CHUNK])
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
                    posix.write(self._fd, b"\x04" if self._last == b"\n" else b"\x04\x04")
                except OSError:
                    pass
            self.close()

    def _arm(self, wanted: bool) -> None:
        if wanted != self._armed:
            self._armed = wanted
            self._server.rearm(self._fd, select.EPOLLOUT if wanted else 0)
