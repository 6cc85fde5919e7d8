"""What `agentix doctor` looks at."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import anyio.to_thread

from agentix.cli.limits import raise_open_files, width_for
from agentix.cli.preflight import CHECK_S, problems_of
from agentix.cli.wording import short
from agentix.errors import AgentixError
from agentix.registry import label_of, load, plugins

_FREE_BYTES = 1 << 30
_OLDEST = (3, 11)
_LONGEST = 10_000


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    what: str
    said: str
    ok: bool = True


async def checkup(providers: Sequence[str] = ()) -> AsyncIterator[Finding]:
    """Look at everything; whatever is wrong is a finding, never an exception.

    Args:
        providers: References of those that are wanted; all that are installed by default.
    """
    yield Finding(
        what="python",
        said=f"{platform.python_version()} in {sys.prefix}",
        ok=sys.version_info >= _OLDEST,
    )
    yield Finding(what="system", said=platform.platform(), ok=sys.platform in ("linux", "darwin"))
    yield await anyio.to_thread.run_sync(_git)
    yield _open_files()
    yield await anyio.to_thread.run_sync(_cache)
    for finding in _plugins():
        yield finding
    if providers:
        for ref in providers:
            yield await _provider(ref, what=f"provider {ref}")
    else:
        for info in plugins("provider"):
            yield await _provider(info.exact, what=f"provider {info.name}")


def _git() -> Finding:
    path = shutil.which("git")
    if path is None:
        return Finding(what="git", said="not found; patches cannot be verified: install git", ok=False)
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(what="git", said=f"{path} does not run: {error}", ok=False)
    return Finding(what="git", said=f"{done.stdout.strip().removeprefix('git version ')} ({path})")


def _open_files() -> Finding:
    limit = raise_open_files()
    width = width_for(limit)
    if width < 8:
        return Finding(
            what="open files",
            said=f"limit {limit} is enough for only {width} trials at a time: raise it with ulimit -n 4096",
            ok=False,
        )
    return Finding(what="open files", said="no limit" if width >= 1_000_000 else f"limit {limit}, up to {width} trials")


def _cache() -> Finding:
    from agentix.bundle.cache import open_folder

    try:
        folder = open_folder("doctor")
        probe = folder / str(os.getpid())
        probe.write_bytes(b"")
        probe.unlink()
        folder.rmdir()
        free = shutil.disk_usage(folder.parent).free
    except (AgentixError, OSError) as error:
        return Finding(what="cache", said=_one_line(error), ok=False)
    said = f"{folder.parent}, {free / 2**30:.1f} GiB free"
    return Finding(what="cache", said=said if free >= _FREE_BYTES else f"{said}: too little", ok=free >= _FREE_BYTES)


def _plugins() -> Iterator[Finding]:
    from agentix.registry import snapshot

    found = snapshot()
    for problem in found.problems:
        yield Finding(what="plugins", said=problem, ok=False)
    for info in found.plugins:
        if info.state in ("ambiguous", "incompatible"):
            yield Finding(what=f"{info.kind} {info.label}", said=f"{info.state}: {info.cause}", ok=False)


async def _provider(ref: str, *, what: str) -> Finding:
    """Load a provider and ask it: `check()` returns problems, or nothing, or raises."""
    try:
        provider: Any = load("provider", ref, where="--provider")
        problems = await problems_of(provider)
    except TimeoutError:
        return Finding(what=what, said=f"its check took longer than {CHECK_S:g} s", ok=False)
    except Exception as error:
        return Finding(what=what, said=_one_line(error), ok=False)
    if problems is None:
        return Finding(what=what, said=f"{label_of(provider)}; it has no check of its own")
    if problems:
        return Finding(what=what, said="; ".join(problems), ok=False)
    return Finding(what=what, said=f"{label_of(provider)} works here")


def _one_line(error: BaseException) -> str:
    return short(str(error), _LONGEST) or type(error).__name__
