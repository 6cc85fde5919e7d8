"""Copies files and trees out of a sandbox that is not trusted."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentix.errors import EnvFailed

if TYPE_CHECKING:
    from agentix.sandbox import Sandbox


async def collect(sandbox: Sandbox, paths: Sequence[str], *, into: Path, note: Callable[[str], None]) -> list[Path]:
    """Copy what exists, each under its own path below `into`.

    Args:
        sandbox: Where to copy from.
        paths: Files and directories, relative ones from the working directory.
        into: A directory on the host; made where something is copied.
        note: Told what was refused.

    Returns:
        The copies, in the order of those paths that exist.
    """
    copies: list[Path] = []
    for path in paths:
        source = posixpath.normpath(posixpath.join(sandbox.workdir, path))
        if "\0" in source:
            raise EnvFailed(f"the artifact path {path!r} holds a NUL character", detail="artifacts")
        if not await sandbox.exists(source):
            continue
        target = into / source.lstrip("/") if source.strip("/") else into / "root"
        target.parent.mkdir(parents=True, exist_ok=True)
        report = await sandbox.download(source, target)
        for refusal in report.refused:
            where = os.fsdecode(posixpath.join(os.fsencode(source), refusal.path))
            note(f"not copied out of the sandbox: {where}: {refusal.reason}")
        copies.append(target)
    return copies
