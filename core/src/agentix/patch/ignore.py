"""Which paths the ignore rules of a base tree leave out, as git itself reads them."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence

from anyio import to_thread

from agentix.patch.git import Scratch
from agentix.patch.manifest import FILE, Item, directories_above
from agentix.patch.objects import ObjectDir

_RULES = b".gitignore"


async def matched(repo: Scratch, paths: Collection[bytes], patterns: Sequence[str]) -> set[bytes]:
    """Those of the paths that patterns in the syntax of `.gitignore` match."""
    if not paths or not patterns:
        return set()
    repo.work_tree.mkdir(exist_ok=True)
    (repo.work_tree / ".gitignore").write_bytes("\n".join(patterns).encode("utf-8", "surrogateescape") + b"\n")
    try:
        return await _check(repo, paths)
    finally:
        (repo.work_tree / ".gitignore").unlink()


async def ignored(repo: Scratch, paths: Collection[bytes], base: Mapping[bytes, Item], store: ObjectDir) -> set[bytes]:
    """Those of the paths that the base's own `.gitignore` files ignore.

    Only files count: a link named `.gitignore` says nothing, as in git.
    """
    rules = {}
    for path in paths:
        for above in (b"", *directories_above(path)):
            name = above + _RULES
            item = base.get(name)
            if item is not None and item.mode | 0o111 == FILE | 0o111:
                rules[name] = item.blob
    if not rules:
        return set()
    await to_thread.run_sync(_write, repo, rules, store)
    return await _check(repo, paths)


def _write(repo: Scratch, rules: Mapping[bytes, str], store: ObjectDir) -> None:
    for name, blob in rules.items():
        if store.has(blob):  # a larger one than the store takes is no rule file
            place = repo.work_tree / os.fsdecode(name)
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("wb") as target:
                target.writelines(store.read(blob))


async def _check(repo: Scratch, paths: Collection[bytes]) -> set[bytes]:
    listing = b"".join(b"./" + path + b"\0" for path in paths)  # a name may begin with a colon
    found, _ = await repo.git("check-ignore", "--no-index", "--stdin", "-z", ok=(0, 1), stdin=listing, work_tree=True)
    return {name[2:] for name in found.split(b"\0")} & set(paths)
