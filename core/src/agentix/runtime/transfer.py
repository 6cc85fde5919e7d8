"""Files and trees as tar streams, in both directions."""

from __future__ import annotations

import errno
import os
import stat

from agentix.runtime import archive, wire
from agentix.runtime.files import make_directory, make_parents, open_regular, owner, write_whole
from agentix.runtime.task import WAIT, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import Any

_MAX_REFUSED = 1000


def pack(
    root: bytes,
    *,
    chosen: Iterator[bytes] | None,
    refuse: Callable[[bytes, str], None],
    admit: Callable[[archive.Entry], bool],
    excluded: Callable[[bytes, bytes], bool] = lambda path, name: False,
) -> Generator[bytes, None, None]:
    """A file or tree as a tar stream, links as links, pipes and devices left out.

    A file is one entry with an empty path; a directory begins with one of the path `.`.

    Args:
        root: Where it lies.
        chosen: The relative paths to take, instead of everything.
        refuse: Told what is left out and why.
        admit: Asked before an entry is sent.
        excluded: Asked for each relative path and name.

    Raises:
        OSError: There is nothing at `root`, or it cannot be read.
    """
    status = os.stat(root)
    if not stat.S_ISDIR(status.st_mode):
        yield from _pack_one(root, b"", status, refuse, admit, required=True)
    else:
        if not excluded(b".", b"."):
            yield archive.head(archive.Entry(b".", archive.DIRECTORY, mode=stat.S_IMODE(status.st_mode)))
        for path in chosen if chosen is not None else _walk(root, refuse, excluded):
            full = os.path.join(root, path)
            try:
                status = os.lstat(full)
            except OSError as error:
                refuse(path, str(error.strerror))
                continue
            yield from _pack_one(full, path, status, refuse, admit)
    yield archive.end()


def _walk(
    root: bytes, refuse: Callable[[bytes, str], None], excluded: Callable[[bytes, bytes], bool]
) -> Iterator[bytes]:
    pending = [b""]
    while pending:
        directory = pending.pop()
        try:
            with os.scandir(os.path.join(root, directory) if directory else root) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            refuse(directory, str(error.strerror))
            continue
        below = []
        for entry in found:
            path = os.path.join(directory, entry.name)
            if excluded(path, entry.name):
                continue
            yield path
            if entry.is_dir(follow_symlinks=False):
                below.append(path)
        pending += reversed(below)


def _pack_one(
    full: bytes,
    path: bytes,
    status: os.stat_result,
    refuse: Callable[[bytes, str], None],
    admit: Callable[[archive.Entry], bool],
    *,
    required: bool = False,
) -> Generator[bytes, None, None]:
    mode, mtime = stat.S_IMODE(status.st_mode), max(0, int(status.st_mtime))
    try:
        if stat.S_ISLNK(status.st_mode):
            entry = archive.Entry(path, archive.LINK, mode=0o777, target=os.readlink(full), mtime=mtime)
            if admit(entry):
                yield archive.head(entry)
        elif stat.S_ISDIR(status.st_mode):
            entry = archive.Entry(path, archive.DIRECTORY, mode=mode, mtime=mtime)
            if admit(entry):
                yield archive.head(entry)
        elif stat.S_ISREG(status.st_mode):
            fd, status = open_regular(full, os.O_RDONLY | (0 if required else os.O_NOFOLLOW))
            try:
                entry = archive.Entry(path, archive.FILE, mode=mode, size=status.st_size, mtime=mtime)
                if admit(entry):
                    yield archive.head(entry)
                    yield from _content(fd, path, status.st_size, refuse)
            finally:
                os.close(fd)
        elif required:
            raise OSError(errno.EINVAL, "not a regular file", full)
        else:
            refuse(path, f"a {_kind(status.st_mode)} is not copied")
    except OSError as error:
        if required:
            raise
        refuse(path, str(error.strerror))


def _content(fd: int, path: bytes, size: int, refuse: Callable[[bytes, str], None]) -> Iterator[bytes]:
    remaining = size
    while remaining:
        try:
            piece = os.read(fd, min(wire.CHUNK, remaining))
        except OSError as error:
            refuse(path, f"could not be read to its end: {error.strerror}")
            piece = b""
        if not piece:
            refuse(path, "became shorter while it was read; the rest is zeros")
            while remaining:
                yield bytes(min(wire.CHUNK, remaining))
                remaining -= min(wire.CHUNK, remaining)
            break
        remaining -= len(piece)
        yield piece
    yield archive.padding(size)


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "named pipe"
    if stat.S_ISSOCK(mode):
        return "socket"
    return "device"


def download(
    task: Task, path: bytes, max_bytes: int, max_entries: int, members: list[bytes] | None
) -> Generator[Any, None, Any]:
    """Send a file or tree; what is over the caps is left out and named."""
    refused: list[list[Any]] = []
    left_out = 0
    entries = size = 0

    def refuse(name: bytes, reason: str) -> None:
        nonlocal left_out
        if len(refused) < _MAX_REFUSED:
            refused.append([name, reason])
        else:
            left_out += 1

    def admit(entry: archive.Entry) -> bool:
        nonlocal entries, size
        if entries >= max_entries:
            refuse(entry.path, f"there are more than {max_entries} entries")
            return False
        if size + entry.size > max_bytes:
            refuse(entry.path, f"with its {entry.size} bytes there would be more than {max_bytes}")
            return False
        entries += 1
        size += entry.size
        return True

    chosen = iter(members) if members is not None else None
    waiting = bytearray()
    for piece in pack(path, chosen=chosen, refuse=refuse, admit=admit):
        # Small files share a frame.
        if len(waiting) + len(piece) > wire.CHUNK:
            yield bytes(waiting)
            waiting.clear()
        waiting += piece
    yield bytes(waiting)
    return {"refused": refused, "left_out": left_out}


def upload(task: Task, path: bytes, user: str | None) -> Generator[Any, None, Any]:
    """Unpack what comes at a path."""
    who = owner(user)
    reader = archive.TarReader()
    unpacker = Unpacker(path, who)
    try:
        make_parents(path, who)
        while True:
            piece = task.take()
            if piece is None:
                yield WAIT
                continue
            if not piece:
                break
            for entry, content in reader.feed(piece):
                if entry is not None:
                    unpacker.begin(entry)
                else:
                    unpacker.write(content)
            yield None
        if not reader.ended:
            raise OSError(errno.EIO, "the upload ended early", path)
        unpacker.finish()
    finally:
        unpacker.close()


class Unpacker:
    """Writes entries of a trusted stream below a path, or to it where the entry's own path is empty."""

    def __init__(self, root: bytes, who: tuple[int, int] | None) -> None:
        self._root = root
        self._who = who
        self._fd = -1
        self._entry: archive.Entry | None = None
        self._directories: list[tuple[bytes, int]] = []

    def begin(self, entry: archive.Entry) -> None:
        """Make an entry; a file's content follows."""
        self._complete()
        path = self._root if entry.path in (b"", b".") else os.path.join(self._root, entry.path)
        if entry.kind == archive.DIRECTORY:
            make_directory(path, 0o755, self._who)
            self._directories.append((path, entry.mode))
            if self._who:
                os.chown(path, *self._who)
            return
        make_parents(path, self._who)
        if os.path.isdir(path) and not os.path.islink(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        if entry.kind == archive.LINK:
            os.symlink(entry.target, path)
            if self._who:
                os.lchown(path, *self._who)
        else:
            self._fd, _ = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            self._entry = entry

    def write(self, content: bytes) -> None:
        """The next piece of the last file."""
        if self._fd >= 0:
            write_whole(self._fd, content)

    def _complete(self) -> None:
        if self._fd >= 0 and self._entry is not None:
            if self._who:
                os.fchown(self._fd, *self._who)
            os.fchmod(self._fd, self._entry.mode)
            os.utime(self._fd, (self._entry.mtime, self._entry.mtime))
            self.close()

    def finish(self) -> None:
        """Set the modes of the directories, which may be read-only."""
        self._complete()
        for path, mode in reversed(self._directories):
            os.chmod(path, mode)

    def close(self) -> None:
        """Close the file under way."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
