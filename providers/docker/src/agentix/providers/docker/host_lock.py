"""A lock between the processes of this machine, which ends with the process that holds it."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio

from agentix.api import cache_dir
from agentix.providers.docker.facts import Facts

_LOG = logging.getLogger("agentix.providers.docker")
_POLL_S = 0.1


def lock_file(facts: Facts, key: str) -> Path:
    """The file for a lock on one piece of work for one engine."""
    return cache_dir() / "docker" / "locks" / f"{facts.id.replace(':', '')[:40]}-{key}"


@asynccontextmanager
async def host_lock(path: Path, *, what: str) -> AsyncIterator[None]:
    """Hold it for the time of the context.

    Args:
        path: A file that is there while somebody holds the lock.
        what: What is done meanwhile, for who has to wait.
    """
    try:
        descriptor = await _acquire(path, what)
    except OSError as error:
        _LOG.warning("%s: other processes of this machine may do it too, since %s is not usable: %s", what, path, error)
        yield
        return
    try:
        yield
    finally:
        _release(descriptor, path)


async def _acquire(path: Path, what: str) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    told = False
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Who held it has removed its file, and another may have made a new one meanwhile.
            if _is_current(descriptor, path):
                return descriptor
        except (BlockingIOError, FileNotFoundError):
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if not told:
            told = True
            _LOG.info("%s: another process does it, waiting", what)
        await anyio.sleep(_POLL_S)


def _is_current(descriptor: int, path: Path) -> bool:
    return os.path.samestat(os.fstat(descriptor), path.stat())


def _release(descriptor: int, path: Path) -> None:
    with suppress(OSError):
        path.unlink()
    os.close(descriptor)
