"""A working tree as it was before the agent, kept where the agent cannot reach it."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

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

T = TypeVar("T")


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

    async def now(self, sandbox: Sandbox) -> Manifest:
        """The tree as it is now.

        Raises:
            PatchError: It cannot be read or is over a limit.
            SandboxGone: The sandbox was lost.
        """
        return await list_tree(sandbox, self.path, self.limits)

    def moved(self, since: Manifest, to: BaseTree) -> BaseTree:
        """This base, with what was changed between two moments by somebody whose changes are not to be in a patch.

        Args:
            since: The tree at the first moment.
            to: The tree at the second one.
        """
        changed = changed_paths(since, to.listed)
        if not changed:
            return self

        def merged(old: Mapping[bytes, T], new: Mapping[bytes, T]) -> dict[bytes, T]:
            kept = {path: value for path, value in old.items() if path not in changed}
            return kept | {path: new[path] for path in changed if path in new}

        listed = Manifest(
            items=merged(self.listed.items, to.listed.items),
            targets=merged(self.listed.targets, to.listed.targets),
            other=(self.listed.other - changed) | (to.listed.other & changed),
        )
        return replace(self, listed=listed, notes=(*self.notes, *to.notes))

    async def diff(self, sandbox: Sandbox, *, now: Manifest | None = None) -> CapturedPatch:
        """What has changed in the sandbox since, as a patch that was seen to apply to the base.

        Nothing is run or written in the sandbox; equal trees start no process at all.

        Args:
            sandbox: Where the tree is.
            now: What `now` gave, where the tree was listed already.

        Raises:
            PatchError: The patch could not be made or does not give the working tree.
            SandboxGone: The sandbox was lost.
        """
        if now is None:
            now = await self.now(sandbox)
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
