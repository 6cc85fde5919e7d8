"""Whether the kernel has killed for want of memory, as its counters tell."""

from __future__ import annotations

import os

_COUNTERS = (
    # The sandbox's own, in either version of control groups; else the machine's, which a neighbour may move too.
    ("/sys/fs/cgroup/memory.events", b"oom_kill "),
    ("/sys/fs/cgroup/memory/memory.oom_control", b"oom_kill "),
    ("/proc/vmstat", b"oom_kill "),
)


def oom_kills() -> int:
    """How many processes were killed until now; compare it with an earlier answer."""
    for path, key in _COUNTERS:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            text = os.read(fd, 1 << 16)
        except OSError:
            continue
        finally:
            os.close(fd)
        for line in text.splitlines():
            if line.startswith(key) and line[len(key) :].strip().isdigit():
                return int(line[len(key) :])
    return 0


def volunteer() -> None:
    """Have the kernel take this process first."""
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, b"700")
        finally:
            os.close(fd)
    except OSError:
        # It helps the others only; where it is not allowed, they take their chances.
        return
