"""Which host uids a sandbox runs under: never the host's real root."""

from __future__ import annotations

import contextlib
import functools
import os
from dataclasses import dataclass
from pathlib import Path

from agentix.providers.local.credentials import can_wear, wearing

RANGE = 65_536

# Where this process's own user namespace is small, one uid of the range that systemd keeps for passing services.
_PASSING_UIDS = range(61_184, 65_519)


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The uids of one sandbox."""

    uid: int
    """The host uid that is root inside."""
    count: int
    """How many consecutive host uids are mapped, from 0 inside."""
    switch: bool
    """Whether this process has to become that uid to start bubblewrap."""

    @property
    def has_users(self) -> bool:
        """Whether there is any other user than root inside."""
        return self.count > 1

    def worn(self) -> contextlib.AbstractContextManager[None]:
        """Within it, programs that this thread starts run under this uid; Popen's own way copies the whole process."""
        return wearing(self.uid) if self.switch and can_wear() else contextlib.nullcontext()

    def popen_user(self) -> int | None:
        """The uid that Popen has to switch to itself."""
        return self.uid if self.switch and not can_wear() else None

    def write_maps(self, pid: int) -> None:
        """Give the user namespace of a process that waits for it its uids.

        Raises:
            OSError: The kernel refuses.
        """
        if not self.has_users:
            # Without it the kernel refuses a gid map from somebody unprivileged (user_namespaces(7)).
            _write(f"/proc/{pid}/setgroups", "deny")
        _write(f"/proc/{pid}/uid_map", f"0 {self.uid} {self.count}")
        gid = self.uid if self.switch else os.getegid()
        _write(f"/proc/{pid}/gid_map", f"0 {gid} {self.count}")


def identity_for(slot: int, *, uid_base: int) -> Identity:
    """The uids for the sandbox in a slot."""
    if os.geteuid() != 0:
        return Identity(uid=os.geteuid(), count=1, switch=False)
    first = uid_base + slot * RANGE
    if _is_mapped(first, RANGE):
        return Identity(uid=first, count=RANGE, switch=True)
    return Identity(uid=_PASSING_UIDS[slot % len(_PASSING_UIDS)], count=1, switch=True)


def _is_mapped(first: int, count: int) -> bool:
    return any(inside <= first and first + count <= inside + length for inside, length in _mapped())


@functools.cache
def _mapped() -> tuple[tuple[int, int], ...]:
    """The ranges of uids of this process's user namespace, which are written once."""
    lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    return tuple((int(line.split()[0]), int(line.split()[2])) for line in lines)


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode("ascii"))
    finally:
        os.close(descriptor)
