"""Compiles modules, once, for a place where they cannot be written: times do not survive a copy."""

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
    """Write pycs for the modules below `top/folder` that have none, as they are seen in a sandbox."""
    sources = [path for path in (top / folder).rglob("*.py") if not _compiled(path).exists()]
    if sources:
        # Any interpreter of this version writes the same kind; -I keeps the user's settings out.
        compile_sources(sources, interpreter=(sys.executable, "-I", "-S"), top=top, shown=MOUNT_POINT)


def _compiled(path: Path) -> Path:
    return path.parent / COMPILED / f"{path.stem}.{sys.implementation.cache_tag}.pyc"


def compile_sources(sources: Sequence[Path], *, interpreter: Sequence[str], top: Path, shown: str) -> None:
    """Write pycs that are never checked against their source.

    A module that does not compile is left without one: distributions hold templates and code for other versions.

    Args:
        sources: The modules.
        interpreter: The command of the interpreter that is going to load them.
        top: The tree that they belong to.
        shown: Where that tree is going to lie.
    """
    command = [*interpreter, "-W", "ignore", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    command += ["-s", str(top), "-p", shown, "-i", "-"]
    width = min(4, os.cpu_count() or 1) if len(sources) > _FEW else 1
    running = []
    try:
        for index in range(width):
            with tempfile.TemporaryFile("w+", encoding="utf-8", errors="surrogateescape") as names:
                names.writelines(f"{path}\n" for path in sources[index::width])
                names.seek(0)
                running.append(
                    subprocess.Popen(
                        command, stdin=names, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=top
                    )
                )
        for process in running:
            process.wait(_LIMIT_S)
    finally:
        for process in running:
            process.kill()
            process.wait()
