"""One writer a run: a lock file that names its owner."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import stat
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from agentix.errors import RecordsDamaged, RunLocked
from agentix.records.plain_files import read_plain

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}
_FOREIGN_IS_DEAD_AFTER_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Owner:
    """A process that writes to a run."""

    host: str
    pid: int
    started: str
    """When it began to write, in UTC."""
    boot: str | None = None
    """Id of the running kernel, the same in all containers of a host, whatever name they have."""
    birth: int | None = None
    """The kernel's start time of the process, which tells it from a later one with the same pid."""

    @classmethod
    def this_process(cls, started: str) -> Owner:
        """The current process."""
        return cls(host=socket.gethostname(), pid=os.getpid(), started=started, boot=_boot(), birth=_birth(os.getpid()))

    @property
    def machine(self) -> str:
        """What tells one machine from another."""
        return self.boot or self.host

    @property
    def is_alive(self) -> bool:
        """Whether that very process still runs on this host."""
        if self.birth is not None and _birth(self.pid) != self.birth:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.started}"


_OWNER: TypeAdapter[Owner] = TypeAdapter(Owner)


class RunLock:
    """The lock of a run directory; the kernel releases it when its owner dies.

    Args:
        path: The lock file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.taken_over: Owner | None = None
        """The dead owner whose lock this was."""
        self._fd: int | None = None

    def acquire(self, owner: Owner) -> None:
        """Take the lock.

        Raises:
            RunLocked: Another process holds it; the message names it.
            FileNotFoundError: Its directory is not there.
        """
        while not self._acquire(owner):
            pass

    def _acquire(self, owner: Owner) -> bool:
        """Take it; `False` where its owner has removed it in the meantime."""
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, f"{self.path.name} is no plain file")
            kernel_locks = True
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise _locked(self.path, read_owner(self.path)) from None
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                kernel_locks = False
            if not names(self.path, fd):
                os.close(fd)
                return False
            earlier = read_owner(self.path)
            if earlier is not None:
                if self._holds(earlier, owner, kernel_locks=kernel_locks):
                    raise _locked(self.path, earlier)
                self.taken_over = earlier
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps(asdict(owner)).encode() + b"\n", 0)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        return True

    @property
    def held(self) -> bool:
        """Whether the lock is held, and at its path: a directory that was moved or removed is not locked any more."""
        return self._fd is not None and names(self.path, self._fd)

    def _holds(self, earlier: Owner, owner: Owner, *, kernel_locks: bool) -> bool:
        if earlier.machine == owner.machine:
            return not kernel_locks and earlier.is_alive and earlier.pid != owner.pid
        # Another host may not see a lock of this kernel; a living writer there touches the file. A time far ahead is
        # that of a clock which was put back since.
        return abs(time.time() - self.path.stat().st_mtime) < _FOREIGN_IS_DEAD_AFTER_S

    def touch(self) -> None:
        """Show other hosts that the owner lives."""
        if self._fd is not None:
            os.utime(self._fd)

    def release(self) -> None:
        """Give the lock back; doing it twice is no error."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            with suppress(OSError):
                os.ftruncate(fd, 0)
            os.close(fd)

    def discard(self) -> None:
        """Give the lock back, and leave no file of it."""
        if self.held:
            with suppress(OSError):
                self.path.unlink()
        self.release()


def names(path: Path, fd: int) -> bool:
    """Whether a path leads to an open file, and not to another one that has taken its place, or to none."""
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except (FileNotFoundError, NotADirectoryError):
        return False


def read_owner(path: Path) -> Owner | None:
    """Who wrote the lock file last and has not released it."""
    try:
        data: dict[str, Any] = json.loads(read_plain(path) or b"{}")
        return _OWNER.validate_python(data) if data else None
    except (OSError, RecordsDamaged, ValueError, RecursionError):
        return None


def _boot() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def _birth(pid: int) -> int | None:
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return int(line.rpartition(b")")[2].split()[19])


def _locked(path: Path, owner: Owner | None) -> RunLocked:
    return RunLocked(
        f"{path.parent}: another run writes here ({owner or 'its owner cannot be read'})",
        hint="Wait for it to end; `agentix status` shows how far it is. Another run needs another --id.",
    )
