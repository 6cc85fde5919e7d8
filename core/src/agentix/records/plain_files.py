"""Reading the files of a run: each is a plain one, or the run is damaged."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from agentix.errors import RecordsDamaged


def open_plain(path: Path) -> BinaryIO:
    """Open a file for reading, without waiting for anybody at the other end of a pipe.

    Raises:
        FileNotFoundError: There is none.
        RecordsDamaged: It is something else, or cannot be read.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RecordsDamaged(f"{path}: cannot be read: {error.strerror}", hint="Use another --id.") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise RecordsDamaged(f"{path}: is no plain file", hint="Remove it, or use another --id.")
    return os.fdopen(fd, "rb")


def read_plain(path: Path) -> bytes:
    """The content of a file; see `open_plain`."""
    with open_plain(path) as file:
        return file.read()
