"""Copies of directories that hold just what a content hash speaks of."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from pathlib import Path

from agentix.api import DatasetError

_CLONE = 0x40049409
"""FICLONE of ioctl_ficlonerange(2): the copy shares its blocks with the original until one of them is changed."""
_NO_CLONE = frozenset(
    {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM, errno.ETXTBSY}
)


def copy_tree(source: Path, target: Path) -> None:
    """Copy a directory to a place that does not exist.

    Links stay links, wherever they lead. Modes become 755 for directories and executables and 644 for all else: like
    owners and times they are no part of what the content hash says, and must not decide anything. The root's `.git` is
    left out.

    Raises:
        DatasetError: It holds something else than files, links and directories.
        OSError: Something cannot be read or written.
    """
    waiting = [(os.fsencode(source), os.fsencode(target))]
    top = True
    while waiting:
        here, there = waiting.pop()
        Path(os.fsdecode(there)).mkdir()
        Path(os.fsdecode(there)).chmod(0o755)
        with os.scandir(here) as entries:
            for entry in entries:
                if top and entry.name == b".git":
                    continue
                copy = os.path.join(there, entry.name)  # noqa: PTH118
                if entry.is_symlink():
                    os.symlink(os.readlink(entry.path), copy)  # noqa: PTH115, PTH211
                elif entry.is_dir():
                    waiting.append((entry.path, copy))
                elif entry.is_file():
                    _copy_file(entry.path, copy)
                else:
                    raise DatasetError(f"{os.fsdecode(entry.path)}: is neither a file, a link nor a directory")
        top = False


def _copy_file(source: bytes, target: bytes) -> None:
    # It must not have become a link meanwhile.
    with os.fdopen(os.open(source, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        mode = 0o755 if os.fstat(file.fileno()).st_mode & stat.S_IXUSR else 0o644
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy:
            try:
                fcntl.ioctl(copy.fileno(), _CLONE, file.fileno())
            except OSError as error:
                if error.errno not in _NO_CLONE:
                    raise
                shutil.copyfileobj(file, copy, 1 << 20)
            os.fchmod(copy.fileno(), mode)
