"""What the host asks about files, done in small pieces so that no call holds up another."""

from __future__ import annotations

import errno
import os
import stat

from agentix.runtime import users, wire
from agentix.runtime.task import WAIT, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import Any

    from agentix.runtime.server import Server

    Work = Generator[Any, None, Any]

_OPEN = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_ENTRIES_A_TURN = 64


def start(server: Server, number: int, method: str, arguments: dict[str, Any]) -> Task:
    """Start a file call.

    Raises:
        ValueError: There is no such method.
    """
    from agentix.runtime import transfer, tree

    works: dict[str, Callable[..., Work]] = {
        "read": read,
        "write": write,
        "exists": exists,
        "remove": remove,
        "make_dirs": make_dirs,
        "upload": transfer.upload,
        "download": transfer.download,
        "tree": tree.tree,
    }
    work = works.get(method)
    if work is None:
        raise ValueError(f"there is no method {method!r}")
    return Task(server, number, lambda task: work(task, **arguments))


def open_regular(path: bytes, flags: int, mode: int = 0o666) -> tuple[int, os.stat_result]:
    """Open a regular file; a pipe or device would block or never end.

    Raises:
        OSError: It is something else (EINVAL, EISDIR), or cannot be opened.
    """
    fd = os.open(path, flags | _OPEN, mode)
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        if stat.S_ISDIR(status.st_mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return fd, status


def owner(user: str | None) -> tuple[int, int] | None:
    """Who gets what is made; None leaves it to this process's user."""
    if user is None:
        return None
    found = users.usable(users.resolve(user))
    return found.uid, found.gid


def make_parents(path: bytes, who: tuple[int, int] | None) -> None:
    """Make the missing directories above a path."""
    parent = os.path.dirname(path.rstrip(b"/"))
    if parent:
        make_directory(parent, 0o755, who)


def make_directory(path: bytes, mode: int, who: tuple[int, int] | None) -> None:
    """Make a directory and those above it; one that exists stays as it is."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent and parent != path:
        make_directory(parent, 0o755, who)
    try:
        os.mkdir(path)
    except FileExistsError:
        if os.path.isdir(path):
            return
        raise
    os.chmod(path, mode)
    if who:
        os.chown(path, *who)


def read(task: Task, path: bytes, limit: int) -> Work:
    """Send a file's bytes."""
    fd, status = open_regular(path, os.O_RDONLY)
    try:
        if status.st_size > limit:
            raise _too_large(path, limit)
        total = 0
        while piece := os.read(fd, wire.CHUNK):
            total += len(piece)
            if total > limit:
                raise _too_large(path, limit)
            yield piece
    finally:
        os.close(fd)


def _too_large(path: bytes, limit: int) -> OSError:
    return OSError(errno.EFBIG, f"the file is larger than the limit of {limit} bytes", path)


def write(task: Task, path: bytes, mode: int, user: str | None) -> Work:
    """Write what comes to a file."""
    who = owner(user)
    make_parents(path, who)
    fd, _ = open_regular(path, os.O_WRONLY | os.O_CREAT, mode)
    try:
        os.ftruncate(fd, 0)
        while True:
            piece = task.take()
            if piece is None:
                yield WAIT
                continue
            if not piece:
                break
            write_whole(fd, piece)
        if who:
            os.fchown(fd, *who)
        os.fchmod(fd, mode)
    finally:
        os.close(fd)


def write_whole(fd: int, piece: bytes) -> None:
    """Write all of a piece to a regular file."""
    written = os.write(fd, piece)
    while written < len(piece):
        written += os.write(fd, piece[written:])


def exists(task: Task, path: bytes) -> Work:
    """Whether there is something, links followed."""
    yield None
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def make_dirs(task: Task, path: bytes, mode: int, user: str | None) -> Work:
    """Make a directory and those above it."""
    yield None
    make_directory(path.rstrip(b"/") or b"/", mode, owner(user))


def remove(task: Task, path: bytes) -> Work:
    """Remove a file, a link or a whole tree; nothing there is no error."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if not stat.S_ISDIR(mode):
        os.unlink(path)
        return
    for count, _ in enumerate(remove_tree(path)):
        if count % _ENTRIES_A_TURN == 0:
            yield None


def remove_tree(path: bytes) -> Iterator[None]:
    """Remove a directory and all below it, one entry a step."""
    # Directories are opened without following links, so that nothing outside can be put in the way.
    parent = os.open(os.path.dirname(path.rstrip(b"/")) or b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield from _remove_below(parent, os.path.basename(path.rstrip(b"/")))
    finally:
        os.close(parent)


def _remove_below(parent: int, name: bytes) -> Iterator[None]:
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        for entry in os.listdir(fd):
            raw = os.fsencode(entry)
            try:
                os.unlink(raw, dir_fd=fd)
            except IsADirectoryError:
                yield from _remove_below(fd, raw)
            except PermissionError:
                if not stat.S_ISDIR(os.lstat(raw, dir_fd=fd).st_mode):
                    raise
                yield from _remove_below(fd, raw)
            yield None
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=parent)
