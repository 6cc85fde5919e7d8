"""The files below a directory with their git blob ids, hashed where they lie."""

from __future__ import annotations

import errno
import os
import stat

from agentix.runtime import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from agentix.runtime.task import Task

_READ = 1 << 18
_BATCH = 1 << 15


def _sha1() -> Any:
    try:
        from _sha1 import sha1  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha1
    return sha1


def tree(task: Task, path: bytes, exclude: list[bytes], max_entries: int, max_bytes: int) -> Generator[Any, None, Any]:
    """Send `[path, kind, executable, size, blob]` for every file, link and other thing, in batches.

    A batch is preceded by its length in four bytes. A link has its target in place of the blob's id, which follows
    from it.
    """
    sha1 = _sha1()
    names = frozenset(exclude)
    entries = size = 0
    batch: list[Any] = []
    weight = 0
    pending = [b""]
    while pending:
        directory = pending.pop()
        with os.scandir(os.path.join(path, directory) if directory else path) as scan:
            found = sorted(scan, key=lambda entry: entry.name)
        for item in found:
            relative = os.path.join(directory, item.name)
            if item.name in names or relative in names:
                continue
            if item.is_dir(follow_symlinks=False):
                pending.append(relative)
                continue
            entries += 1
            if entries > max_entries:
                raise OSError(errno.EFBIG, f"the tree has more than {max_entries} entries", path)
            record = [relative, "other", False, 0, ""]
            if item.is_symlink():
                target = os.readlink(item.path)
                record = [relative, "link", False, len(target), target]
                weight += len(target)
            elif item.is_file(follow_symlinks=False):
                file = yield from _file(item.path, sha1, max_bytes - size)
                if file is None:
                    continue
                record = [relative, "file", *file]
                size += file[1]
            batch.append(record)
            weight += len(relative) + 80
            if weight >= _BATCH:
                yield _framed(batch)
                batch, weight = [], 0
    if batch:
        yield _framed(batch)
    return {"entries": entries, "bytes": size}


def _framed(batch: list[Any]) -> bytes:
    raw = wire.encode(batch)
    return len(raw).to_bytes(4, "big") + raw


def _file(path: bytes, sha1: Any, allowed: int) -> Generator[Any, None, list[Any] | None]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(fd)
        size = status.st_size
        if size > allowed:
            raise OSError(errno.EFBIG, "the tree is larger than the limit with this file", path)
        digest = sha1(b"blob %d\0" % size)
        remaining = size
        while remaining:
            piece = os.read(fd, min(_READ, remaining))
            if not piece:
                raise OSError(errno.EBUSY, "the file became shorter while it was read", path)
            digest.update(piece)
            remaining -= len(piece)
            if remaining:
                yield None
        yield None
        return [bool(status.st_mode & stat.S_IXUSR), size, digest.hexdigest()]
    finally:
        os.close(fd)
