"""What there is of a file that may be mostly holes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import IO

SPARSE = 64 << 20
"""Bytes from which on a file that is mostly holes is not read as a whole."""
_BLOCK = 1 << 20


def mostly_holes(about: os.stat_result) -> bool:
    """Whether nearly all of a large file is nowhere on the disk: reading it may take days."""
    return about.st_size > SPARSE and about.st_blocks * 512 * 8 < about.st_size


def without_holes(file: IO[bytes]) -> Iterator[bytes]:
    """What there is of a file, with a zero byte for each hole."""
    fd, place = file.fileno(), 0
    while True:
        try:
            place = os.lseek(fd, place, os.SEEK_DATA)
            end = os.lseek(fd, place, os.SEEK_HOLE)
        except OSError:  # there is nothing after it
            return
        while place < end:
            data = os.pread(fd, min(_BLOCK, end - place), place)
            if not data:
                return
            place += len(data)
            yield data
        yield b"\0"
