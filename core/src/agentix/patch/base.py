"""A working tree as it was before the agent, kept where the agent cannot reach it."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyio import to_thread

from agentix.errors import PatchError
from agentix.patch.changes import CapturedPatch, changed_paths, make_patch
from agentix.patch.fetch import fetch
from agentix.patch.git import scratch
from agentix.patch.limits import PatchLimits
from agentix.patch.manifest import LINK, Item, Manifest, manifest, show
from agentix.patch.store import BlobStore

if TYPE_CHECKING:
    from agentix.sandbox import Sandbox

_ATTEMPTS = 3


@dataclass(frozen=True, kw_only=True)
class BaseTree:
    """The base that a patch is made against."""

    path: str
    """Absolute path of the tree in the sandbox."""
    listed: Manifest
    exclude: tuple[str, ...]
    limits: PatchLimits
    store: BlobStore
    notes: tuple[str, ...] = ()

    @property
    def items(self) -> Mapping[bytes, Item]:
        """The files and links of the tree, by path relative to its root."""
        return self.listed.items

    @classmethod
    def empty(cls, path: str, *, limits: PatchLimits | None = None) -> BaseTree:
        """A tree that is known to hold nothing."""
        nothing = Manifest(items={}, targets={}, other=frozenset())
        return cls(path=path, listed=nothing, exclude=(), limits=limits or PatchLimits(), store=BlobStore.default())

    async def diff(self, sandbox: Sandbox) -> CapturedPatch:
        """What has changed in the sandbox since, as a patch that was seen to apply to the base.

        Nothing is run or written in the sandbox; equal trees start no process at all.

        Raises:
            PatchError: The patch could not be made or does not give the working tree.
            SandboxGone: The sandbox was lost.
        """
        now = await list_tree(sandbox, self.path, self.limits)
        if not changed_paths(self.listed, now):
            return CapturedPatch(notes=self.notes)
        try:
            return await make_patch(self, now, sandbox)
        except OSError as error:
            raise PatchError(f"the patch of {self.path} could not be made: {error}") from error


async def capture_base(
    sandbox: Sandbox,
    path: str,
    *,
    exclude: Sequence[str] = (),
    limits: PatchLimits | None = None,
    store: BlobStore | None = None,
) -> BaseTree:
    """Record a working tree, with its contents, on the host.

    Every `.git` is left out, at any depth: a nested repository's files are files like any other.

    Args:
        sandbox: Where the tree is.
        path: Absolute path of its root.
        exclude: Patterns in the syntax of `.gitignore`; changes to what they match are left out of the patch
            and listed.
        limits: Caps on what is read.
        store: Where contents are kept; the cache by default.

    Raises:
        PatchError: The tree cannot be read or is over a limit.
        SandboxGone: The sandbox was lost.
    """
    limits = limits or PatchLimits()
    store = store or BlobStore.default()
    listed = await list_tree(sandbox, path, limits)
    kept = {name: item for name, item in listed.items.items() if item.size <= limits.max_file_bytes}
    try:
        missing = await to_thread.run_sync(store.missing, [item.blob for item in kept.values()])
        wanted = {name: item for name, item in kept.items() if item.blob in missing}
        notes: tuple[str, ...] = ()
        if wanted:
            links_only = all(item.mode == LINK for item in wanted.values())
            async with scratch(store) as repo:
                found = await fetch(sandbox, path, wanted, listed, into=store.objects, files=repo.files, limits=limits)
            if found and not links_only:
                listed = _corrected(listed, found)
                notes = (f"written to while the base was recorded: {', '.join(map(show, sorted(found)))}",)
    except OSError as error:
        raise PatchError(f"the base of {path} could not be recorded: {error}") from error
    return BaseTree(path=path, listed=listed, exclude=tuple(exclude), limits=limits, store=store, notes=notes)


async def list_tree(sandbox: Sandbox, path: str, limits: PatchLimits) -> Manifest:
    """The working tree as it is now.

    Raises:
        PatchError: It cannot be read or is over a limit.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            tree = await sandbox.tree(
                path, exclude=(".git",), max_entries=limits.max_entries, max_bytes=limits.max_bytes
            )
        except OSError as error:
            # A file that is cut while it is read, such as a log, is read again.
            if error.errno != errno.EBUSY or attempt == _ATTEMPTS:
                raise PatchError(f"{path} cannot be listed in the sandbox: {error}") from error
        else:
            break
    return manifest(tree)


def _corrected(listed: Manifest, found: Mapping[bytes, Item | None]) -> Manifest:
    items = {name: found.get(name, item) for name, item in listed.items.items()}
    return listed._replace(items={name: item for name, item in items.items() if item is not None})
