"""Process trees as /proc shows them, and the switches of prctl(2), for which Python has no function."""

from __future__ import annotations

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36

SIGKILL, SIGTERM, SIGCONT, SIGSTOP = 9, 15, 18, 19

_SWEEPS = 10
DOUBTS = 100
"""How often one looks again where nothing was found, but something may have been missed."""
_THREADS = 17
"""Where in /proc/PID/stat, after the name, the number of threads is."""


def prctl(option: int, value: int) -> None:
    """Set one switch of this process.

    Raises:
        OSError: The kernel refused.
    """
    # The package `ctypes` costs four milliseconds more than the module that does its work.
    import _ctypes

    class CInt(_ctypes._SimpleCData):  # type: ignore[type-arg]
        _type_ = "i"

    class CFunction(_ctypes.CFuncPtr):
        _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
        _restype_ = CInt

    # A null name stands for what is loaded already.
    program = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
    address = _ctypes.dlsym(program, "prctl")
    if CFunction(address)(option, value, 0, 0, 0) != 0:
        code = _ctypes.get_errno()
        raise OSError(code, f"prctl({option}): {posix.strerror(code)}")


def snapshot() -> dict[int, tuple[int, str]]:
    """Parent and state of every process that can be seen, by pid."""
    found = {}
    for name in posix.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            fd = posix.open(f"/proc/{name}/stat", posix.O_RDONLY | posix.O_CLOEXEC)
        except OSError:
            continue
        try:
            # The name in parentheses may hold anything, so the fields are those after the last one.
            fields = posix.read(fd, 1024).rpartition(b")")[2].split(None, _THREADS + 1)
            state, parent = fields[:2]
            if state == b"Z" and int(fields[_THREADS]) > 1:
                # Only its first thread has ended; all others go on.
                state = b"S"
        except (OSError, ValueError, IndexError):
            continue
        finally:
            posix.close(fd)
        found[int(name)] = int(parent), state.decode("ascii", "replace")
    return found


def descendants(root: int, processes: dict[int, tuple[int, str]]) -> set[int]:
    """Every process below `root`, in any number of generations."""
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in processes.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    pending = [root]
    while pending:
        for pid in children.get(pending.pop(), ()):
            if pid not in found and pid != root:
                found.add(pid)
                pending.append(pid)
    return found


def living(root: int, *, everything: bool = False, spared: Container[int] = (), apart: Iterable[int] = ()) -> set[int]:
    """The processes below `root` that are not zombies.

    Args:
        root: Their ancestor.
        everything: All that can be seen but `root`, whoever its parent is.
        spared: Processes to leave out.
        apart: Processes to leave out with all that is below them.
    """
    processes = snapshot()
    found = set(processes) - {root} if everything else descendants(root, processes)
    for other in apart:
        found -= {other} | descendants(other, processes)
    # In a namespace of its own, kernel threads are not seen; elsewhere `everything` is not asked for.
    return {pid for pid in found if pid not in spared and processes[pid][1] not in "ZX"}


def newest() -> bytes:
    """The last pid that was given to a process or thread here: as long as it is the same, nothing was started."""
    try:
        fd = posix.open("/proc/loadavg", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return posix.read(fd, 1024).rpartition(b" ")[2]
    except OSError:
        return b""
    finally:
        posix.close(fd)


def send(pids: Iterable[int], signal: int) -> None:
    """Send a signal to each process that still exists and may be signalled."""
    for pid in pids:
        try:
            posix.kill(pid, signal)
        except OSError:
            continue


def terminate(pids: Collection[int]) -> None:
    """Ask processes to end, also those that are stopped."""
    send(pids, SIGTERM)
    send(pids, SIGCONT)


def kill_all(root: int, *, everything: bool = False, spared: Container[int] = (), apart: Collection[int] = ()) -> int:
    """Kill one generation of what is alive below `root`.

    Stopping comes first, so that what forks faster than it is killed is caught too.

    Returns:
        How many processes were signalled; call it again until it is 0.
    """
    stopped: set[int] = set()
    for _ in range(_SWEEPS):
        found = living(root, everything=everything, spared=spared, apart=apart) - stopped
        if not found:
            break
        send(found, SIGSTOP)
        stopped |= found
    send(stopped, SIGKILL)
    return len(stopped)


def kill_or_doubt(root: int, *, everything: bool = False, spared: Container[int] = ()) -> tuple[int, bool]:
    """The same, and whether something may have been missed.

    What forks and ends all the time can be gone whenever it is looked at, and its child not there yet.
    """
    before = newest()
    count = kill_all(root, everything=everything, spared=spared)
    return count, not count and before != newest()
