"""Applies a patch to a tree in a sandbox: worked out on the host, then only what changes is written."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from anyio import to_thread

from agentix.errors import PatchError
from agentix.patch.base import BaseTree, capture_base
from agentix.patch.git import GitFailed, Scratch, scratch
from agentix.patch.index import read_index, write_index
from agentix.patch.limits import PatchLimits
from agentix.patch.manifest import EXECUTABLE, FILE, LINK, Item, directories_above, show
from agentix.patch.store import BlobStore

if TYPE_CHECKING:
    from agentix.sandbox import Sandbox

_MOVED = re.compile(r"^Hunk #\d+ succeeded at \d+ \(offset .*$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class AppliedPatch:
    """What applying a patch did."""

    method: Literal["nothing", "exact", "offset"] = "nothing"
    """`exact`: every hunk fitted at its own line; `offset`: some fitted only elsewhere; `nothing`: an empty patch."""
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


async def apply_patch(
    sandbox: Sandbox,
    patch: str,
    path: str,
    *,
    allow_offset: bool = False,
    user: str | None = None,
    limits: PatchLimits | None = None,
    store: BlobStore | None = None,
) -> AppliedPatch:
    """Apply a patch strictly; nothing is written before all of it is known to apply.

    Context must match to the letter. A patch is never reversed, and one that is already in the tree is an error.

    Args:
        sandbox: Where the tree is.
        patch: Any bytes, as UTF-8 with surrogateescape.
        path: Absolute path of the tree's root, which the patch's paths are relative to after their first part.
        allow_offset: Whether hunks may fit at another line than theirs.
        user: The owner of the files that are written; by default the user of the sandbox's commands.
        limits: Caps on what is read.
        store: Where contents are kept; the cache by default.

    Raises:
        PatchError: The patch does not apply (`patch_rejected`), or could not be worked out or written.
        SandboxGone: The sandbox was lost.
    """
    data = patch.encode("utf-8", "surrogateescape")
    if not data.strip():
        return AppliedPatch()
    base = await capture_base(sandbox, path, limits=limits, store=store)
    try:
        async with scratch(base.store) as repo:
            after, moved = await _work_out(repo, base, data)
            if moved and not allow_offset:
                raise PatchError(
                    f"the patch fits only at other lines than its own: {moved}",
                    detail="patch_rejected",
                    hint="it was made for another base",
                )
            changed = {name: item for name, item in after.items() if not item.same(base.items.get(name))}
            removed = {name for name in base.items if name not in after}
            await _write(sandbox, repo, base, changed, removed, user)
    except OSError as error:
        raise PatchError(f"the patch could not be applied to {path}: {error}", detail="patch_apply") from error
    return AppliedPatch(
        method="offset" if moved else "exact",
        written=tuple(map(show, sorted(changed))),
        removed=tuple(map(show, sorted(removed))),
    )


async def _work_out(repo: Scratch, base: BaseTree, data: bytes) -> tuple[dict[bytes, Item], str | None]:
    """The tree after the patch, and the first hunk that had to be moved."""
    await to_thread.run_sync(write_index, repo.index, base.items)
    await to_thread.run_sync(repo.patch.write_bytes, data)
    try:
        _, said = await repo.git("apply", "-v", "--cached", "--binary", "--whitespace=nowarn", str(repo.patch))
    except GitFailed as error:
        raise PatchError(f"the patch does not apply to {base.path}: {error}", detail="patch_rejected") from error
    after = await to_thread.run_sync(read_index, repo.index)
    for name, item in after.items():
        if item.mode not in (FILE, EXECUTABLE, LINK):
            raise PatchError(
                f"the patch makes {show(name)} a submodule, which cannot be written", detail="patch_rejected"
            )
    moved = _MOVED.search(said)
    return after, moved[0] if moved else None


async def _write(
    sandbox: Sandbox,
    repo: Scratch,
    base: BaseTree,
    changed: Mapping[bytes, Item],
    removed: set[bytes],
    user: str | None,
) -> None:
    """Bring the tree in the sandbox to the new state."""
    kept = {*base.items, *base.listed.other, *changed} - removed
    occupied = {above for path in kept for above in directories_above(path)}
    # A directory that no file is left in goes too, as with git; this also makes room for a file of its name.
    gone = {next((above for above in directories_above(path) if above not in occupied), path) for path in removed}
    root = base.path.rstrip("/")
    for path in sorted(gone):
        await sandbox.remove(f"{root}/{show(path).rstrip('/')}")
    stages = await to_thread.run_sync(_stage, repo, base, changed)
    owner = user or sandbox.config.user or sandbox.info.user
    for number, directory in enumerate(stages):
        place = f"{root}/{show(directory)}".rstrip("/")
        await sandbox.upload(repo.files / str(number), place, user=owner, exclude=(".",))


def _stage(repo: Scratch, base: BaseTree, changed: Mapping[bytes, Item]) -> list[bytes]:
    """Lay the files out on the host, one flat directory for each that they go to.

    So nothing but files and links is sent, and the directories in the sandbox keep their modes and owners.
    """
    by_directory: dict[bytes, list[bytes]] = {}
    for path in sorted(changed):
        by_directory.setdefault(path.rpartition(b"/")[0], []).append(path)
    for number, paths in enumerate(by_directory.values()):
        stage = repo.files / str(number)
        stage.mkdir(parents=True)
        for path in paths:
            item = changed[path]
            objects = repo.objects if repo.objects.has(item.blob) else base.store.objects
            target = stage / os.fsdecode(path.rpartition(b"/")[2])
            if item.mode == LINK:
                target.symlink_to(os.fsdecode(b"".join(objects.read(item.blob))))
                continue
            with target.open("wb") as file:
                file.writelines(objects.read(item.blob))
            target.chmod(item.mode & 0o777)
    return list(by_directory)
