"""One small file for each sandbox, so that another process can find it and clean up after a dead owner."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agentix.api import HostError, Owner, cache_dir

_TORN_S = 60.0

SLOTS = 4095
"""How many sandboxes can exist at once: as many as there are ranges of uids."""


@dataclass(frozen=True, kw_only=True)
class Lease:
    """What has to be known to delete a sandbox."""

    id: str
    slot: int
    owner: Owner
    created_at: float
    labels: Mapping[str, str] = field(default_factory=dict)
    cgroups: tuple[str, ...] = ()
    processes: tuple[tuple[int, int], ...] = ()
    """Pids with their start times: bubblewrap's own and that of the sandbox's first process."""
    workdir: str = "/"
    user: str | None = None

    def text(self) -> bytes:
        """What is written down, to be read by `parse`."""
        return json.dumps({**vars(self), "owner": vars(self.owner), "labels": dict(self.labels)}).encode("utf-8")

    def mark(self) -> bytes:
        """What the text of no other lease begins with."""
        return json.dumps({"id": self.id})[:-1].encode("utf-8")

    @staticmethod
    def parse(text: bytes) -> Lease:
        """Read a lease.

        Raises:
            ValueError: It is none.
        """
        try:
            data: dict[str, Any] = json.loads(text)
            data["owner"] = Owner(**data["owner"])
            data["cgroups"] = tuple(data["cgroups"])
            data["processes"] = tuple((int(pid), int(start)) for pid, start in data["processes"])
            return Lease(**data)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(str(error)) from error


def lease_folder(cache: Path, *, memory: Path = Path("/dev/shm")) -> Path:  # noqa: S108
    """The directory for the leases of a cache: in shared memory where that is safe, else in the cache.

    It depends on nothing but the cache and the user, so that every process of that user finds the same one.
    """
    uid = os.geteuid()
    own = memory / f"agentix-{uid}"
    with contextlib.suppress(OSError):
        own.mkdir(mode=0o700, exist_ok=True)
        status = own.lstat()
        # Everybody may make directories there, under any name.
        if stat.S_ISDIR(status.st_mode) and status.st_uid == uid and not status.st_mode & 0o077:
            return own / f"leases-{hashlib.sha256(os.fsencode(cache.absolute())).hexdigest()[:16]}"
    return cache / "local" / "leases"


class Leases:
    """The leases of one cache directory.

    Args:
        folder: Where they lie; by default in memory, where making a file costs next to nothing.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or lease_folder(cache_dir())

    def claim(
        self,
        *,
        created_at: float,
        labels: Mapping[str, str],
        cgroups: Callable[[str], tuple[str, ...]],
        workdir: str = "/",
        user: str | None = None,
    ) -> Lease:
        """Take a free slot for this process.

        Args:
            created_at: Seconds since the epoch.
            labels: What the sandbox is found by.
            cgroups: The control groups that a sandbox of the given id is going to have.
            workdir: Where its commands start.
            user: Whom they run as.

        Raises:
            HostError: The directory cannot be written, or every slot is taken.
        """
        try:
            first = random.randrange(SLOTS)  # noqa: S311
            for step in range(SLOTS):
                slot = (first + step) % SLOTS
                sandbox_id = f"local-{slot:03x}-{secrets.token_hex(6)}"
                lease = Lease(
                    id=sandbox_id,
                    slot=slot,
                    owner=Owner.this_process(),
                    created_at=created_at,
                    labels=dict(labels),
                    cgroups=cgroups(sandbox_id),
                    workdir=workdir,
                    user=user,
                )
                if self._publish(lease):
                    return lease
        except OSError as error:
            raise HostError(
                f"the lease of a sandbox cannot be written to {self.folder}: {error.strerror}",
                hint="set AGENTIX_CACHE_DIR to a writable directory that other users can read",
            ) from error
        raise HostError(f"{SLOTS} sandboxes exist already", hint="end some, or run `agentix gc`")

    def update(self, lease: Lease, **changes: Any) -> Lease:
        """Record more about a sandbox that exists."""
        changed = replace(lease, **changes)
        # Replaced as a whole: a reader finds the old text or the new one.
        fresh = f"{self.folder}/.{lease.id}"
        _write(fresh, changed.text(), os.O_CREAT)
        os.replace(fresh, self._path(lease.slot))  # noqa: PTH105
        return changed

    def release(self, lease: Lease) -> None:
        """Give the slot back. Nothing happens where somebody else has it by now."""
        path = self._path(lease.slot)
        with contextlib.suppress(FileNotFoundError):
            if _read(path).startswith(lease.mark()):
                os.unlink(path)  # noqa: PTH108

    def find(self, sandbox_id: str) -> Lease | None:
        """The lease of a sandbox, whoever made it."""
        try:
            slot = int(sandbox_id.split("-")[1], 16)
            lease = Lease.parse(_read(self._path(slot)))
        except (OSError, ValueError, IndexError):
            return None
        return lease if lease.id == sandbox_id else None

    def all(self) -> Iterator[Lease]:
        """Every lease that can be read."""
        for path in self._paths():
            try:
                yield Lease.parse(path.read_bytes())
            except (OSError, ValueError):
                continue

    def drop_torn(self) -> None:
        """Give back the slots of those who died while they wrote their lease; nothing was started yet."""
        for path in self._paths():
            with contextlib.suppress(OSError):
                age = time.time() - path.stat().st_mtime
                try:
                    Lease.parse(path.read_bytes())
                except ValueError:
                    if age > _TORN_S:
                        path.unlink()

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("slot-*")) if self.folder.is_dir() else []

    def _publish(self, lease: Lease) -> bool:
        try:
            _write(self._path(lease.slot), lease.text(), os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return False
        except FileNotFoundError:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o755)
            return self._publish(lease)
        return True

    def _path(self, slot: int) -> str:
        return f"{self.folder}/slot-{slot:03x}"


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def _write(path: str, text: bytes, flags: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags, 0o600)
    try:
        os.write(descriptor, text)
    finally:
        os.close(descriptor)
