"""Stdin and stdout of the server as its stream to the host, for a sandbox whose engine carries both."""

from __future__ import annotations

import fcntl
import os


class Stdio:
    """One stream of two pipes, with the methods of a socket that the server calls.

    Commands must not get at it, so both pipes move to descriptors that no program inherits, and nothing takes their
    place. Stderr stays what it is: the sandbox's log.
    """

    def __init__(self) -> None:
        self._source = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
        self._sink = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
        nothing = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        os.close(nothing)

    def fileno(self) -> int:
        """The descriptor to read from."""
        return self._source

    def sink(self) -> int:
        """The descriptor to write to."""
        return self._sink

    def setblocking(self, flag: bool) -> None:
        """Whether reading and writing wait."""
        os.set_blocking(self._source, flag)
        os.set_blocking(self._sink, flag)

    def recv(self, most: int) -> bytes:
        """Read what there is."""
        return os.read(self._source, most)

    def send(self, data: bytes | bytearray) -> int:
        """Write what fits."""
        return os.write(self._sink, data)

    def close(self) -> None:
        """Hang up."""
        os.close(self._source)
        os.close(self._sink)
