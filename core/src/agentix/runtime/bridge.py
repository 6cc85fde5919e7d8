"""Carries bytes between its stdin and stdout and the server's socket, until either side hangs up.

An engine that can start a process in a sandbox gives the host a stream to the server that way.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import posix
import select
import sys

from agentix.runtime import processes

_PIECE = 1 << 18
_CONNECT_S = 10


def carry(connected: _socket.socket, source: int, sink: int) -> None:
    """Copy in both directions; returns when either side has hung up.

    Args:
        connected: A connected stream socket.
        source: The descriptor that gives what is written to the socket.
        sink: The descriptor that takes what comes from it.
    """
    near = connected.fileno()
    for fd in (source, sink, near):
        posix.set_blocking(fd, False)
    inward, outward = _Way(source, near), _Way(near, sink)
    poll = select.poll()
    while True:
        # A descriptor that nothing is wanted of still tells of a hang-up.
        wanted = dict.fromkeys((source, sink, near), 0)
        for way in (inward, outward):
            fd, events = way.waits_for()
            wanted[fd] |= events
        for fd, events in wanted.items():
            poll.register(fd, events)
        for _, events in poll.poll():
            if events & (select.POLLERR | select.POLLNVAL) or (events & select.POLLHUP and not events & select.POLLIN):
                return
        if not (inward.move() and outward.move()):
            return


class _Way:
    """One direction: what was read is written before more is read, so that nothing piles up here."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._held = b""

    def waits_for(self) -> tuple[int, int]:
        """The descriptor and the event without which nothing can be done."""
        return (self._sink, select.POLLOUT) if self._held else (self._source, select.POLLIN)

    def move(self) -> bool:
        """Do what can be done; whether there may be more."""
        try:
            if not self._held:
                self._held = posix.read(self._source, _PIECE)
                if not self._held:
                    return False
            self._held = self._held[posix.write(self._sink, self._held) :]
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True


def main() -> None:
    """Connect with the socket whose abstract name is the last argument."""
    processes.prctl(processes.PR_SET_DUMPABLE, 0)
    if _is_traced():
        sys.stderr.write("agentix bridge: another process looks into this one\n")
        posix._exit(3)
    connected = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    # Whoever waits its turn among many has to block; a socket with a time limit is refused instead.
    _signal.alarm(_CONNECT_S)
    try:
        connected.connect(b"\0" + sys.argv[-1].encode("ascii"))
    except OSError as error:
        sys.stderr.write(f"agentix bridge: the runtime's server cannot be reached: {error}\n")
        posix._exit(4)
    _signal.alarm(0)
    carry(connected, 0, 1)
    posix._exit(0)


def _is_traced() -> bool:
    fd = posix.open("/proc/self/status", posix.O_RDONLY)
    try:
        return b"\nTracerPid:\t0\n" not in posix.read(fd, 4096)
    finally:
        posix.close(fd)
