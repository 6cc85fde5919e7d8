"""Brings contents out of a sandbox into an object directory, checked against what the listing said."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from agentix.errors import PatchError
from agentix.patch.limits import PatchLimits
from agentix.patch.manifest import LINK, Item, Manifest, show
from agentix.patch.objects import ObjectDir, blob_name

if TYPE_CHECKING:
    from agentix.sandbox import Sandbox

_ROUNDS = 4


async def fetch(
    sandbox: Sandbox,
    path: str,
    wanted: Mapping[bytes, Item],
    listed: Manifest,
    *,
    into: ObjectDir,
    files: Path,
    limits: PatchLimits,
) -> dict[bytes, Item | None]:
    """Store the contents of these files and links.

    A file that changed since it was listed is stored as it is now.

    Args:
        sandbox: Where they are.
        path: The tree's root in the sandbox.
        wanted: What to bring, by path relative to the root.
        listed: The listing that they are from.
        into: Where their contents go.
        files: A directory for the files under way, which does not exist.
        limits: Caps.

    Returns:
        Those that are not what was listed: what was found, or `None` for one that is gone.

    Raises:
        PatchError: A file could not be brought.
    """
    links = {name: item for name, item in wanted.items() if item.mode == LINK}
    await to_thread.run_sync(_store_links, links, listed, into)
    left = {name: item for name, item in wanted.items() if item.mode != LINK}
    found: dict[bytes, Item | None] = {}
    for _ in range(_ROUNDS):
        if not left:
            return found
        bring = {item.blob: name for name, item in left.items()}
        members = sorted(bring.values())
        report = await sandbox.download(
            path, files, members=members, max_bytes=limits.max_bytes, max_entries=limits.max_entries
        )
        got = await to_thread.run_sync(_store_files, files, members, into)
        refused = {_as_bytes(refusal.path): refusal.reason for refusal in report.refused}
        for name in members:
            item, now = left[name], got.get(name)
            if now is None and name in refused:
                raise PatchError(f"{show(name)} could not be read out of the sandbox: {refused[name]}")
            if now is None and await sandbox.exists(f"{path.rstrip('/')}/{show(name)}"):
                continue
            if now is None or now[0] != item.blob:
                found[name] = None if now is None else Item(item.mode, *now)
                del left[name]
        there = {now[0] for now in got.values()}
        left = {name: item for name, item in left.items() if item.blob not in there}
    raise PatchError(f"{show(min(left))} could not be read out of the sandbox")


def _as_bytes(path: str | bytes) -> bytes:
    return path if isinstance(path, bytes) else os.fsencode(path)


def _store_links(links: Mapping[bytes, Item], listed: Manifest, into: ObjectDir) -> None:
    for name, item in links.items():
        target = listed.targets[name]
        if blob_name(target) != item.blob:
            raise PatchError(f"the sandbox listed the link {show(name)} with a target of another name")
        if not into.has(item.blob):
            into.add("blob", target)


def _store_files(files: Path, members: list[bytes], into: ObjectDir) -> dict[bytes, tuple[str, int]]:
    root = files.resolve()
    got = {}
    plain: set[Path] = set()
    for name in members:
        place = root / os.fsdecode(name)
        try:
            if place.parent not in plain:
                if place.parent.resolve() != place.parent:
                    continue
                plain.add(place.parent)
            handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            continue
        with os.fdopen(handle, "rb") as source:
            status = os.fstat(source.fileno())
            if stat.S_ISREG(status.st_mode):
                got[name] = (into.add_stream(source, status.st_size), status.st_size)
    if files.exists():
        shutil.rmtree(files)
    return got
