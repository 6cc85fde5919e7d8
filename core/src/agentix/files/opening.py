"""Opens a file of which somebody else decides what it is."""

from __future__ import annotations

import errno
import os
import stat
from io import FileIO
from pathlib import Path
from typing import BinaryIO, Literal, overload

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@overload
def open_plain(path: bytes | str | Path) -> BinaryIO: ...
@overload
def open_plain(path: bytes | str | Path, *, buffering: Literal[0]) -> FileIO: ...
def open_plain(path: bytes | str | Path, *, buffering: int = -1) -> BinaryIO | FileIO:
    """Open a plain file to be read.

    A link is not followed, and a pipe or a device, which might never end, is not waited for.

    Args:
        path: The file.
        buffering: 0 for none.

    Raises:
        OSError: It cannot be read, or is something else.
    """
    fd = os.open(path, _FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "is no plain file", os.fsdecode(path))
        return os.fdopen(fd, "rb", buffering=buffering)
    except BaseException:
        os.close(fd)
        raise
