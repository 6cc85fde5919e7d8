"""Parts of bundles that change seldom, kept by what they are made from, and linked into each bundle."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentix.bundle.description import Entry
from agentix.bundle.listing import COMPILED, first_change, scan, seal
from agentix.bundle.store import Store

_LISTING = "layer.json"


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A part of a bundle's tree."""

    path: Path
    entries: tuple[Entry, ...] = ()
    notes: tuple[str, ...] = ()
    """What whoever builds should know."""
    made: bool = field(default=False, compare=False)
    """Whether it was made just now."""


def kept_layer(
    store: Store, key: str, make: Callable[[Path], list[str]], *, work: Path, refresh: bool = False
) -> Layer:
    """The layer of a key; made where there is none, by one process at a time.

    Args:
        store: Where layers are kept.
        key: Changes with everything that the layer is made from.
        make: Fills a directory and returns notes.
        work: A directory for what is unfinished, on the same disk.
        refresh: Make it anew.
    """
    path = store.layers / key
    with (store.layers / f"{key}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        layer = None if refresh else _read(path)
        if layer is not None:
            os.utime(path / _LISTING)
            return layer
        fresh = work / f"layer-{key}"
        tree = fresh / "tree"
        tree.mkdir(parents=True)
        notes = make(tree)
        seal(tree)
        entries = scan(tree)
        listing = {"entries": [entry.model_dump(exclude_defaults=True) for entry in entries], "notes": notes}
        (fresh / _LISTING).write_text(json.dumps(listing), encoding="utf-8")
        if path.exists():
            path.rename(fresh.with_name(f"{fresh.name}-old"))
        fresh.rename(path)
        return Layer(path=path / "tree", entries=tuple(entries), notes=tuple(notes), made=True)


def link_layer(layer: Layer, tree: Path) -> dict[str, Entry]:
    """Put a layer's files into a tree, as links to the same files; what is there already stays.

    Returns:
        The entries of what was put there.
    """
    put: dict[str, Entry] = {}
    known: Mapping[str, Entry] = {entry.path: entry for entry in layer.entries}
    for folder, folders, names in os.walk(layer.path):
        place = os.path.relpath(folder, layer.path)
        target = tree if place == "." else tree / place
        target.mkdir(exist_ok=True)
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        for name in (*names, *links):
            if not _put(f"{folder}/{name}", f"{target}/{name}"):
                continue
            path = name if place == "." else f"{place}/{name}"
            if path in known:
                put[path] = known[path]
    return put


def drop_compiled(tree: Path, path: str) -> None:
    """Remove the compiled form of a module, whose source is another one now."""
    module = tree / path
    for compiled in (module.parent / COMPILED).glob(f"{module.stem}.*.pyc"):
        compiled.unlink()


def _put(source: str, target: str) -> bool:
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError:
        # Some file systems have no hard links, or not so many.
        shutil.copy2(source, target, follow_symlinks=False)
    return True


def _read(path: Path) -> Layer | None:
    """A layer that is there, and as it was made."""
    try:
        data = json.loads((path / _LISTING).read_bytes())
        # Written by this code, in this user's own directory: what is wrong with it shows in the comparison.
        entries = tuple(Entry.model_construct(**entry) for entry in data["entries"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if first_change(path / "tree", entries) is not None:
        return None
    return Layer(path=path / "tree", entries=entries, notes=tuple(data["notes"]))
