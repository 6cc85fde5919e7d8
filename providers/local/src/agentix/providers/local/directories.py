"""Refuses a directory that cannot be made in a sandbox, before bubblewrap gives up on it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from agentix.api import EnvFailed
from agentix.providers.local.arguments import DIRS, SOURCES, host_tools
from agentix.providers.local.etc import Etc

_LONGEST, _LONGEST_NAME = 4095, 255
_KERNELS = ("/proc", "/dev")
_FREE = ("/dev/shm",)  # noqa: S108
_OURS = ("/agentix/runtime", "/agentix/etc")
_FILES = ("passwd", "group", "hosts", "resolv.conf", "mtab")


def refuse_directories(paths: Iterable[str], *, etc: Etc, shown: Iterable[Path] = ()) -> None:
    """Check directories that a Dockerfile or a task asks for.

    Args:
        paths: Absolute and without `..`.
        etc: What /etc has.
        shown: Further directories of the host that are shown read-only.

    Raises:
        EnvFailed: One cannot be made; the message names it and says why.
    """
    paths = [path for path in paths if path not in DIRS]
    if not paths:
        return
    tools = ("/usr", *(f"/{name}" for name in host_tools()), *(str(path) for path in shown))
    files = {f"/etc/{name}" for name in (*_FILES, *etc.names) if not (etc.folder / name).is_dir()}
    folders = {f"/etc/{name}" for name in etc.names} - files
    for path in paths:
        why = _why_not(PurePosixPath(path), tools=tools, files=files, folders=folders, etc=etc)
        if why is not None:
            raise EnvFailed(
                f"the directory {path[:200]} cannot be made in a sandbox of the provider local: {why}",
                detail="workdir",
                hint="name another one, or use a provider that has images, such as `--provider docker`",
            )


def _why_not(path: PurePosixPath, *, tools: Iterable[str], files: set[str], folders: set[str], etc: Etc) -> str | None:
    if len(os.fsencode(path)) > _LONGEST or any(len(os.fsencode(part)) > _LONGEST_NAME for part in path.parts):
        return "its name is too long"
    places = [str(place) for place in (path, *path.parents)]
    if any(place in files for place in places):
        return "a file is in its place"
    if SOURCES in places or any(place in places for place in _FREE):
        return None
    for top in _KERNELS:
        if top in places[1:]:
            return f"{top} is the kernel's"
    if any(top in places for top in _OURS):
        return "that place is the runtime's"
    for top in folders:
        if top in places and not (etc.folder / path.relative_to("/etc")).is_dir():
            return f"{top} is the host's, and read-only"
    for top in tools:
        if top in places and not Path(path).is_dir():
            return f"{top} is the host's, and read-only"
    return None
