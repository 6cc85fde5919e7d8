"""Limits by control groups, version 1 or 2, nested below the group that this process is in."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

CONTROLLERS = ("memory", "pids", "cpu")
PERIOD_US = 100_000

_V2_LIMITS = ("memory.max", "pids.max", "cpu.max")


@dataclass(frozen=True, kw_only=True)
class Parent:
    """A directory below which groups can be made."""

    path: Path
    version: int


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a sandbox may use; `None` means no limit."""

    memory_bytes: int | None = None
    pids: int | None = None
    cpus: float | None = None
    processes: int | None = None
    """Processes of each user, by an rlimit: moving into a control group takes the kernel longer than all the rest."""

    def asked(self) -> tuple[str, ...]:
        """The controllers that these limits need."""
        wanted = {"memory": self.memory_bytes, "pids": self.pids, "cpu": self.cpus}
        return tuple(name for name, value in wanted.items() if value is not None)


@functools.cache
def usable_parents() -> Mapping[str, Parent]:
    """The controllers that this process may use."""
    return find_parents(
        mounts=Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape"),
        membership=Path("/proc/self/cgroup").read_text(encoding="utf-8", errors="surrogateescape"),
    )


def find_parents(*, mounts: str, membership: str) -> dict[str, Parent]:
    """For each controller a directory in which groups with its limits can be made.

    Args:
        mounts: The content of /proc/self/mountinfo (proc(5)).
        membership: The content of /proc/self/cgroup (cgroups(7)).
    """
    member_of: dict[str, str] = {}
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        member_of.update(dict.fromkeys(controllers.split(","), path))
    found: dict[str, Parent] = {}
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        root, point = left.split()[3:5]
        kind, _, options = [*right.split(), "", "", ""][:3]
        if kind == "cgroup":
            for name in set(options.split(",")) & set(CONTROLLERS) & set(member_of):
                own = _own_directory(point, root=root, member=member_of[name])
                if own is not None and os.access(own, os.W_OK | os.X_OK):
                    found[name] = Parent(path=own, version=1)
        elif kind == "cgroup2" and "" in member_of:
            own = _own_directory(point, root=root, member=member_of[""])
            for name in CONTROLLERS:
                if name not in found and own is not None and (parent := _delegating(own, name, top=Path(point))):
                    found[name] = Parent(path=parent, version=2)
    return found


def groups_for(name: str, limits: Limits) -> tuple[Path, ...]:
    """The groups that a sandbox of this name needs, as far as there are parents for them."""
    parents = usable_parents()
    places = {parents[controller].path / name: None for controller in limits.asked() if controller in parents}
    return tuple(places)


def create(groups: tuple[Path, ...], limits: Limits) -> None:
    """Make groups and set their limits.

    Raises:
        OSError: A group or a limit cannot be written.
    """
    for group in groups:
        group.mkdir(exist_ok=True)
    for controller in limits.asked():
        parent = usable_parents().get(controller)
        for group in groups:
            if parent is not None and group.parent == parent.path:
                for file, value in _settings(controller, parent.version, limits):
                    # Swap is accounted for where the kernel was told to at its start.
                    with contextlib.suppress(FileNotFoundError) if file in _OPTIONAL else contextlib.nullcontext():
                        _write(group / file, value)


def enter(groups: tuple[Path, ...], pid: int) -> None:
    """Move a process, with what it will start, into the groups."""
    for group in groups:
        _write(group / "cgroup.procs", str(pid))


def oom_kills(groups: tuple[Path, ...]) -> int:
    """How many processes the kernel has killed for memory in these groups."""
    for group in groups:
        for file in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                for line in (group / file).read_text(encoding="ascii").splitlines():
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
    return 0


def remove(groups: tuple[Path, ...], *, patience_s: float = 2.0) -> list[Path]:
    """Remove groups whose processes are gone or going.

    Returns:
        Those that could not be removed in time.
    """
    deadline = time.monotonic() + patience_s
    left = list(groups)
    while True:
        left = [group for group in left if not _removed(group)]
        if not left or time.monotonic() > deadline:
            return left
        # The kernel lets go of a group a moment after its last process.
        time.sleep(0.002)


_OPTIONAL = ("memory.memsw.limit_in_bytes", "memory.swap.max")


def _settings(controller: str, version: int, limits: Limits) -> list[tuple[str, str]]:
    if controller == "memory":
        size = str(limits.memory_bytes)
        if version == 1:
            return [("memory.limit_in_bytes", size), ("memory.memsw.limit_in_bytes", size)]
        return [("memory.max", size), ("memory.swap.max", "0")]
    if controller == "pids":
        return [("pids.max", str(limits.pids))]
    quota = max(1000, int((limits.cpus or 0) * PERIOD_US))
    if version == 1:
        return [("cpu.cfs_period_us", str(PERIOD_US)), ("cpu.cfs_quota_us", str(quota))]
    return [("cpu.max", f"{quota} {PERIOD_US}")]


def _own_directory(point: str, *, root: str, member: str) -> Path | None:
    try:
        return Path(point) / PurePosixPath(member).relative_to(root)
    except ValueError:
        return None


def _delegating(own: Path, controller: str, *, top: Path) -> Path | None:
    """The nearest directory, from our own upwards, that hands the controller down and that we may write to.

    Processes and controllers exclude each other within one directory (cgroups(7), "no internal processes"), so
    it is mostly the parent. Limits that we run under ourselves are never stepped over.
    """
    place = own
    while True:
        try:
            handed_down = (place / "cgroup.subtree_control").read_text(encoding="ascii").split()
        except OSError:
            return None
        if controller in handed_down and os.access(place, os.W_OK | os.X_OK):
            return place if os.access(place / "cgroup.procs", os.W_OK) else None
        if place == top or any(_is_limited(place / name) for name in _V2_LIMITS):
            return None
        place = place.parent


def _is_limited(file: Path) -> bool:
    try:
        return not file.read_text(encoding="ascii").startswith("max")
    except OSError:
        return False


def _removed(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _write(path: Path, value: str) -> None:
    with path.open("w", encoding="ascii") as file:
        file.write(value)
