"""A directory for what is half done: its own process uses it, and whoever comes later removes it."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from agentix.api import HostError

_PREFIX = ".partial-"
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS})
"""Of file systems on which nothing can be locked: there nothing that was abandoned is removed."""


@contextmanager
def workspace(parent: Path) -> Iterator[Path]:
    """A new directory below another, removed at the end; those that a killed process has left there are removed too.

    Raises:
        HostError: It cannot be made.
    """
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(parent)
        path, descriptor = _locked(parent)
    except OSError as error:
        raise HostError(f"{parent}: cannot be written: {error.strerror}") from error
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def _locked(parent: Path) -> tuple[Path, int]:
    while True:
        # Never a name again: who removes an abandoned directory may not have come to its end.
        path = parent / f"{_PREFIX}{uuid4().hex}"
        path.mkdir(mode=0o700)
        # Until it is locked, somebody may take it for abandoned.
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        try:
            # It ends with the process, however that ends.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if path.stat().st_ino == os.fstat(descriptor).st_ino:
                    return path, descriptor
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return path, descriptor
        os.close(descriptor)
        shutil.rmtree(path, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    for path in parent.glob(f"{_PREFIX}*"):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except OSError:
            # Somebody is at work there, or it cannot be known.
            continue
        finally:
            os.close(descriptor)
