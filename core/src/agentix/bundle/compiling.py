"""Compiles the modules of a tree, once, for a place where they cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from agentix.bundle.listing import COMPILED
from agentix.bundle.mounted import MOUNT_POINT

_FEW = 40
_LIMIT_S = 900


def compile_modules(top: Path, *, folder: str = "site") -> None:
    """Write pycs that are never checked against their source, for modules below `top/folder` that have none.

    A module that does not compile is left without one: distributions hold templates and code for other versions.
    """
    sources = [path for path in (top / folder).rglob("*.py") if not _compiled(path).exists()]
    if not sources:
        return
    # Any interpreter of this version writes the same kind; -I keeps the user's settings out.
    command = [sys.executable, "-I", "-S", "-W", "ignore", "-m", "compileall", "-q", "--invalidation-mode"]
    command += ["unchecked-hash", "-s", str(top), "-p", MOUNT_POINT, "-i", "-"]
    _run(command, sources, cwd=top)


def _compiled(path: Path) -> Path:
    return path.parent / COMPILED / f"{path.stem}.{sys.implementation.cache_tag}.pyc"


def _run(command: Sequence[str], sources: Sequence[Path], *, cwd: Path) -> None:
    width = min(4, os.cpu_count() or 1) if len(sources) > _FEW else 1
    running = []
    try:
        for index in range(width):
            with tempfile.TemporaryFile("w+", encoding="utf-8", errors="surrogateescape") as names:
                names.writelines(f"{path}\n" for path in sources[index::width])
                names.seek(0)
                running.append(
                    subprocess.Popen(
                        command, stdin=names, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=cwd
                    )
                )
        for process in running:
            process.wait(_LIMIT_S)
    finally:
        for process in running:
            process.kill()
            process.wait()
