"""Removes bundles, and what no name or build needs any more."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from agentix.bundle.cache import cache_error
from agentix.bundle.lookup import find_digest
from agentix.bundle.reference import PathRef, TagRef, parse_bundle_ref
from agentix.bundle.store import UNFINISHED, Store, open_store
from agentix.errors import BundleError


@dataclass(frozen=True, kw_only=True)
class Collected:
    """What was removed, or would be."""

    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """What was left, with the reason."""
    bytes: int = 0


def remove_bundle(ref: str) -> Collected:
    """Remove a name, and its tree where no other name points at it; with a digest, the tree and all its names.

    Raises:
        BundleError: There is no such bundle, or a running process uses its tree.
    """
    store = open_store()
    parsed = parse_bundle_ref(ref)
    if isinstance(parsed, PathRef):
        raise BundleError(f"bundle {ref!r}: only a bundle of the store can be removed", hint="agentix bundle list")
    digest = find_digest(store, parsed)
    names = [name for name, target in store.names().items() if target == digest]
    gone = [parsed] if isinstance(parsed, TagRef) else names
    last = set(names) <= set(gone)
    tree = store.tree(digest)
    size = _size(tree) if last else 0
    if last and tree.exists() and not store.discard(tree):
        raise BundleError(f"bundle {ref} is in use by a running process", hint="end it, or wait for it")
    for name in gone:
        store.forget(name)
    return Collected(removed=(*map(str, gone), *((digest,) if last else ())), bytes=size)


def collect_bundles(*, unused_for_s: float = 7 * 86_400.0, dry_run: bool = False) -> Collected:
    """Remove trees without a name, layers that no build has used lately, and what interrupted builds left.

    Args:
        unused_for_s: How long, in seconds, no build must have used what is kept for builds.
        dry_run: Only tell.

    Raises:
        HostError: The store cannot be used.
    """
    store = open_store()
    removed: list[str] = []
    kept: list[str] = []
    freed = 0
    try:
        named = set(store.names().values())
        for digest in store.digests():
            if digest in named:
                continue
            tree = store.tree(digest)
            size = _size(tree)
            if not dry_run and not store.discard(tree):
                kept.append(f"{digest}: in use by a running process")
                continue
            removed.append(digest)
            freed += size
        with store.alone() as alone:
            for path in _spare(store, time.time() - unused_for_s):
                if not alone:
                    kept.append(f"{path.name}: a build is running")
                    continue
                freed += _size(path)
                removed.append(str(path.relative_to(store.top)))
                if not dry_run:
                    shutil.rmtree(path)
    except OSError as error:
        raise cache_error(store.top, error) from error
    return Collected(removed=tuple(removed), kept=tuple(kept), bytes=freed)


def _spare(store: Store, oldest: float) -> list[Path]:
    """What only builds need, and none has needed lately; and what is unfinished."""
    found = [path for path in sorted(store.top.iterdir()) if path.name.startswith(UNFINISHED)]
    for folder, mark in ((store.layers, "layer.json"), (store.builders, ".ready")):
        for path in sorted(folder.iterdir()):
            used = path / mark
            if path.is_dir() and (not used.exists() or used.stat().st_mtime < oldest):
                found.append(path)
    return found


def _size(path: Path) -> int:
    """Bytes that removing a tree gives back: a file with other links gives none."""
    sizes = (entry.lstat() for entry in path.rglob("*"))
    return sum(status.st_blocks * 512 for status in sizes if status.st_nlink == 1)
