"""SIGINT, SIGTERM and SIGHUP as events, from the start of a run to its last word."""

from __future__ import annotations

import signal
import socket
from collections.abc import AsyncIterator
from types import FrameType, TracebackType

import anyio

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SignalLatch:
    """While it is open, the signals do nothing but tell whoever iterates.

    A signal handler of the event loop ends with the loop, and then the same signal, sent once more, would kill
    the process while it is still writing its summary. This outlives the loop.
    """

    def __init__(self) -> None:
        self.received: list[int] = []
        self._reader, self._writer = socket.socketpair()
        self._before: dict[int, object] = {}
        self._wakeup = -1

    def __enter__(self) -> SignalLatch:
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        # The byte is written at once by whichever thread gets the signal, so it also wakes a waiting loop.
        self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            # Under nohup, a terminal that goes away is meant to change nothing.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._nothing)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for number, handler in self._before.items():
            # What was asked for once is under way: asking again must not cut the end of the process short.
            signal.signal(number, signal.SIG_IGN if self.received else handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self._wakeup)
        self._reader.close()
        self._writer.close()

    async def __aiter__(self) -> AsyncIterator[int]:
        """The numbers of the signals, as they come; it does not end."""
        while True:
            await anyio.wait_readable(self._reader)
            for number in self._reader.recv(64):
                if number in _SIGNALS:
                    self.received.append(number)
                    yield number

    def _nothing(self, number: int, frame: FrameType | None) -> None:
        """Stands where the default would end the process."""
