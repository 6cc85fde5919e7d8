"""Stdin and stdout of the server as its stream to the host, for a sandbox whose engine carries both."""

from __future__ import annotations

import fcntl
import os

from agentix.runtime.stream import Stream


def open_stdio() -> Stream:
    """Take stdin and stdout over.

    Commands must not get at them, so both pipes move to descriptors that no program inherits, and nothing takes their
    place. Stderr stays what it is: the sandbox's log.
    """
    source = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    sink = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    nothing = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    return Stream(source, sink)
