"""From two listings to a patch that is known to apply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from anyio import to_thread

from agentix.errors import PatchError
from agentix.patch.fetch import fetch
from agentix.patch.git import Scratch, scratch
from agentix.patch.ignore import ignored, matched
from agentix.patch.index import read_index, write_index
from agentix.patch.limits import MIB
from agentix.patch.manifest import Item, Manifest, directories_above, show

if TYPE_CHECKING:
    from agentix.patch.base import BaseTree
    from agentix.sandbox import Sandbox

_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class CapturedPatch:
    """What changed in a working tree."""

    data: bytes = b""
    """A git patch: binary, with full object names, without renames. Empty only where the trees are equal."""
    excluded: tuple[str, ...] = ()
    """Changed paths that are not in it; a directory ends with a slash."""
    notes: tuple[str, ...] = ()
    """Why they are not, and what else a reader of the patch should know."""

    @cached_property
    def text(self) -> str:
        """The patch as UTF-8 with surrogateescape, which keeps every byte."""
        return self.data.decode("utf-8", "surrogateescape")


def changed_paths(before: Manifest, after: Manifest) -> set[bytes]:
    """The paths in which two trees differ, special files included."""
    changed = {path for path, item in before.items.items() if not item.same(after.items.get(path))}
    changed.update(path for path in after.items if path not in before.items)
    return changed | (before.other ^ after.other)


async def make_patch(base: BaseTree, after: Manifest, sandbox: Sandbox) -> CapturedPatch:
    """Make and verify the patch from a base tree to what the sandbox holds now.

    Raises:
        PatchError: Git failed, a limit was reached, or the patch does not give the new tree.
        OSError: The machine's disk failed.
    """
    before, limits = base.listed, base.limits
    changed = changed_paths(before, after)
    special = {path for path in changed if path not in before.items and path not in after.items}
    changed -= special
    left_out: dict[str, set[bytes]] = {"special files, which no patch can hold": special}
    async with scratch(base.store) as repo:
        chosen = await matched(repo, changed, base.exclude)
        changed -= chosen
        new = {path for path in changed if path not in before.items}
        hidden = await ignored(repo, new, before.items, base.store.objects)
        changed -= hidden
        large = {path for path in changed if _size(path, before, after) > limits.max_file_bytes}
        changed -= large
        left_out["excluded by pattern"] = chosen
        left_out["new files that the base's .gitignore ignores"] = hidden
        left_out[f"over the limit max_file_bytes ({limits.max_file_bytes / MIB:g} MiB)"] = large

        now = {path: after.items[path] for path in changed if path in after.items}
        found = await fetch(sandbox, base.path, now, after, into=repo.objects, files=repo.files, limits=limits)
        now = {path: item for path in now if (item := found.get(path, now[path])) is not None}
        was = {path: before.items[path] for path in changed if path in before.items}
        await to_thread.run_sync(_require, base, was)
        data = b""
        if was != now:
            untouched = {path: before.items[path] for path in chosen | large if path in before.items}
            data = await _diff(repo, was, now, limits.max_patch_bytes)
            await _verify(repo, was, now, untouched)
    excluded = [path for paths in left_out.values() for path in _folded(paths, before.items, now)]
    notes = [*base.notes, *(f"left out: {_named(paths)}: {why}" for why, paths in left_out.items() if paths)]
    if found:
        notes.append(f"written to while the patch was captured: {_named(found)}")
    return CapturedPatch(data=data, excluded=tuple(map(show, sorted(excluded))), notes=tuple(notes))


def _require(base: BaseTree, was: Mapping[bytes, Item]) -> None:
    lost = base.store.missing(item.blob for item in was.values())
    if lost:
        raise PatchError(
            f"the base contents of {_named(path for path, item in was.items() if item.blob in lost)} "
            "are no longer in the cache",
            hint="they were pruned while the trial ran; run it again",
        )


async def _diff(repo: Scratch, was: Mapping[bytes, Item], now: Mapping[bytes, Item], most: int) -> bytes:
    """Only what changed is put into the two trees: the rest cannot show in their difference."""
    old = await to_thread.run_sync(repo.objects.add_tree, was)
    new = await to_thread.run_sync(repo.objects.add_tree, now)
    await repo.git(
        "diff-tree", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv",
        "--no-color", "--src-prefix=a/", "--dst-prefix=b/", f"--output={repo.patch}", old, new,
    )  # fmt: skip
    size = repo.patch.stat().st_size
    if size > most:
        raise PatchError(
            f"the patch has {size / MIB:.1f} MiB, over the limit max_patch_bytes ({most / MIB:g} MiB)",
            detail="patch_too_large",
        )
    return await to_thread.run_sync(repo.patch.read_bytes)


async def _verify(
    repo: Scratch, was: Mapping[bytes, Item], now: Mapping[bytes, Item], untouched: Mapping[bytes, Item]
) -> None:
    """Apply the patch to the base; what is in neither tree here is in both and is not touched by it."""
    await to_thread.run_sync(write_index, repo.index, {**was, **untouched})
    await repo.git("apply", "--cached", "--binary", "--whitespace=nowarn", str(repo.patch))
    got = await to_thread.run_sync(read_index, repo.index)
    want = {**now, **untouched}
    wrong = {path for path in got.keys() | want.keys() if path not in want or not want[path].same(got.get(path))}
    if wrong:
        raise PatchError(f"the patch does not give the working tree: {_named(wrong)}")


def _size(path: bytes, before: Manifest, after: Manifest) -> int:
    return max(tree.items[path].size if path in tree.items else 0 for tree in (before, after))


def _folded(paths: set[bytes], base: Mapping[bytes, Item], now: Mapping[bytes, Item]) -> set[bytes]:
    """The same paths, with a directory in place of its files where nothing else was or is in it."""
    others = (
        {above for path in (*base, *now) if path not in paths for above in directories_above(path)} if paths else set()
    )
    return {next((above for above in directories_above(path) if above not in others), path) for path in paths}


def _named(paths: Iterable[bytes]) -> str:
    names = sorted(paths)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(show(name) for name in names[:_NAMED]) + more
