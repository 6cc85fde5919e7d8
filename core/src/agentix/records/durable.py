"""Writes that survive a crash."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

_ALONE = 4
_TOGETHER = 16


def fsync_dir(path: Path) -> None:
    """Make the names in a directory durable; file systems that cannot are left alone."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            os.fsync(fd)
    finally:
        os.close(fd)


def write_files(files: Sequence[tuple[Path, bytes]]) -> None:
    """Write whole files so that each is there completely or not at all, also after a power cut.

    All are written before the first is synced: the file system then commits most of them at once.

    Args:
        files: Path and content; the directories exist. They appear in this order.
    """
    open_files: list[tuple[int, Path, Path]] = []
    try:
        for path, data in files:
            temp = path.with_name(f".{path.name}.{os.getpid()}.tmp")
            fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            open_files.append((fd, temp, path))
            write_all(fd, data)
        _each(os.fsync, [fd for fd, _, _ in open_files])
        for _, temp, path in open_files:
            temp.replace(path)
    finally:
        for fd, temp, _ in open_files:
            os.close(fd)
            with suppress(FileNotFoundError):
                temp.unlink()
    _each(fsync_dir, list(dict.fromkeys(path.parent for path, _ in files)))


def _each(sync: Callable[[Any], None], items: Sequence[Any]) -> None:
    """Sync many at a time: the file system makes one commit of what is asked for together."""
    if len(items) <= _ALONE:
        for item in items:
            sync(item)
        return
    with ThreadPoolExecutor(min(_TOGETHER, len(items)), thread_name_prefix="agentix-sync") as pool:
        for _ in pool.map(sync, items):
            pass


def write_file(path: Path, data: bytes) -> None:
    """Write one whole file; see `write_files`."""
    write_files([(path, data)])


def replace_file(path: Path, data: bytes) -> None:
    """Write a whole file that readers see old or new, never half; it need not survive a power cut."""
    temp = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temp.write_bytes(data)
        temp.replace(path)
    except OSError:
        with suppress(OSError):
            temp.unlink()
        raise


def write_all(fd: int, data: bytes) -> None:
    """Write every byte, however many calls that takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
