"""Gives back the room that the cache no longer needs."""

from __future__ import annotations

import fcntl
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from agentix.bundle.cache import cache_error, open_folder
from agentix.bundle.runtime import FOLDER, UNFINISHED, current_digest


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """What was removed, or would be."""

    paths: tuple[Path, ...]
    bytes: int


def prune_cache(*, unused_for_s: float = 7 * 86_400.0, dry_run: bool = False) -> Pruned:
    """Remove base runtimes that no process has asked for lately, and what interrupted builds left.

    The runtime of this interpreter is kept whatever its age. A sandbox that lives longer than `unused_for_s` and
    belongs to another interpreter can lose its runtime.

    Args:
        unused_for_s: How long, in seconds, nobody must have asked for what is removed.
        dry_run: Only tell.

    Raises:
        HostError: The cache cannot be used.
    """
    folder = open_folder(FOLDER)
    keep = current_digest()
    oldest = time.time() - unused_for_s
    removed: list[Path] = []
    freed = 0
    try:
        with (folder / "lock").open("wb") as lock:
            # Nobody builds while this is held, so what is unfinished was left behind.
            fcntl.flock(lock, fcntl.LOCK_EX)
            for path in sorted(folder.iterdir()):
                unfinished = path.name.startswith(UNFINISHED)
                if not path.is_dir() or path.name == keep or (not unfinished and path.stat().st_mtime > oldest):
                    continue
                freed += _size(path)
                removed.append(path)
                if not dry_run:
                    shutil.rmtree(path)
    except OSError as error:
        raise cache_error(folder, error) from error
    return Pruned(paths=tuple(removed), bytes=freed)


def _size(path: Path) -> int:
    return sum(entry.lstat().st_blocks * 512 for entry in path.rglob("*"))
