"""The reading end of a pipe whose text goes to the host's logs, or nowhere."""

from __future__ import annotations

import os
import select

from agentix.runtime import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentix.runtime.python import Worker

_READS_A_TURN = 4


class LogPipe:
    """It is always read, so that nobody who prints is held up, or killed once the worker has ended.

    Args:
        worker: Whose output it is.
        fd: The pipe.
        channel: What its pieces are sent as.
    """

    def __init__(self, worker: Worker, fd: int, channel: int) -> None:
        self._worker = worker
        self._fd = fd
        self._channel = channel
        os.set_blocking(fd, False)
        worker.server.watch(fd, select.EPOLLIN, lambda events: self.drain())

    def drain(self) -> None:
        """Take what there is."""
        for _ in range(_READS_A_TURN):
            if self._fd < 0:
                return
            try:
                piece = os.read(self._fd, wire.CHUNK)
            except BlockingIOError:
                return
            except OSError:
                piece = b""
            if not piece:
                self._worker.server.unwatch(self._fd)
                os.close(self._fd)
                self._fd = -1
                return
            self._worker.log(self._channel, piece)
