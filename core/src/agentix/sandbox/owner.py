"""Who a sandbox belongs to: a process, so that nobody else takes it for abandoned."""

from __future__ import annotations

import functools
import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Owner:
    """One process on one boot of one machine."""

    host: str
    boot: str
    pid_namespace: str
    pid: int
    start: int
    """Start time in clock ticks since boot: a pid is used again, the pair is not."""

    @staticmethod
    def this_process() -> Owner:
        """The process that calls."""
        return _owner_with_pid(os.getpid())

    def is_dead(self) -> bool:
        """Whether it surely does not run any more; one that cannot be seen from here is not dead."""
        here = Owner.this_process()
        if (self.host, self.boot) != (here.host, here.boot):
            # After a reboot nothing of it is left; another machine with the same cache is none of our business.
            return self.host == here.host
        return self.pid_namespace == here.pid_namespace and start_time(self.pid) != self.start


# Keyed by pid: a forked child is another owner.
@functools.lru_cache(maxsize=1)
def _owner_with_pid(pid: int) -> Owner:
    return Owner(
        host=socket.gethostname(),
        boot=Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip(),
        pid_namespace=str(Path("/proc/self/ns/pid").readlink()),
        pid=pid,
        start=start_time(pid) or 0,
    )


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since boot (proc(5), field 22 of stat); `None` where it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rsplit(b")", 1)[1].split()
    except (OSError, IndexError):
        return None
    # A zombie runs nothing any more.
    return None if fields[0] in (b"Z", b"X") else int(fields[19])
