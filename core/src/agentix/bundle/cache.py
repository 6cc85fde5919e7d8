"""Where agentix keeps what it can build again."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from agentix.errors import HostError


def cache_dir() -> Path:
    """The cache directory: `AGENTIX_CACHE_DIR`, else `/var/cache/agentix` as root, else the user's own."""
    if chosen := os.environ.get("AGENTIX_CACHE_DIR"):
        return Path(chosen).expanduser().absolute()
    if os.geteuid() == 0:
        return Path("/var/cache/agentix")
    return Path(platformdirs.user_cache_dir("agentix"))


def open_folder(name: str) -> Path:
    """A folder of the cache, made where it does not exist, that other users may read and only we may write.

    Raises:
        HostError: It cannot be made, or somebody else could change what lies in it.
    """
    top = cache_dir()
    path = top / name
    try:
        for folder in (top, path):
            if not folder.is_dir():
                folder.mkdir(parents=True, exist_ok=True)
                folder.chmod(0o755)
        status = path.stat()
    except OSError as error:
        raise cache_error(path, error) from error
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
        raise HostError(
            f"the cache directory {path} can be written by other users",
            hint="set AGENTIX_CACHE_DIR to a directory of your own, or make this one yours with mode 755",
        )
    return path


def cache_error(path: Path, error: OSError) -> HostError:
    """The one error for a full disk, a read-only file system or a directory of somebody else."""
    reason = error.strerror or str(error)
    return HostError(
        f"the cache at {path} cannot be used: {reason}",
        hint="set AGENTIX_CACHE_DIR to a writable directory with 200 MB free that other users can read",
    )
