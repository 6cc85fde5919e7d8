"""What a working tree consists of, as far as a git patch can tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from agentix.errors import PatchError

if TYPE_CHECKING:
    from agentix.sandbox import Tree

FILE = 0o100644
EXECUTABLE = 0o100755
LINK = 0o120000

_DEEPEST = 500


class Item(NamedTuple):
    """One file or symbolic link."""

    mode: int
    blob: str
    """Name of the git blob that holds its content or its target."""
    size: int = 0

    def same(self, other: Item | None) -> bool:
        """Whether git sees no difference."""
        return other is not None and self.mode == other.mode and self.blob == other.blob


class Manifest(NamedTuple):
    """A working tree: what a patch can express, and what lies there besides."""

    items: Mapping[bytes, Item]
    targets: Mapping[bytes, bytes]
    """Targets of the symbolic links, by path."""
    other: frozenset[bytes]
    """Sockets, pipes and devices, names that git refuses in every tree, and paths of more than 500 parts."""


def manifest(tree: Tree) -> Manifest:
    """Read a listing that a sandbox gave.

    Raises:
        PatchError: A path in it is not possible.
    """
    items: dict[bytes, Item] = {}
    targets: dict[bytes, bytes] = {}
    other: set[bytes] = set()
    for path, entry in tree.items():
        parts = path.split(b"/")
        if b"" in parts or b"." in parts or b".." in parts or b"\0" in path:
            raise PatchError(f"the sandbox listed a path that cannot be: {show(path)}")
        link = entry.kind == "link"
        if entry.kind == "other" or len(parts) > _DEEPEST or refused_by_git(parts, link=link):
            other.add(path)
        elif link:
            targets[path] = entry.target
            items[path] = Item(LINK, entry.blob, entry.size)
        else:
            items[path] = Item(EXECUTABLE if entry.executable else FILE, entry.blob, entry.size)
    return Manifest(items, targets, frozenset(other))


def refused_by_git(parts: list[bytes], *, link: bool) -> bool:
    """Whether git takes such a name in no tree: `.git` in any case, a link named `.gitmodules`."""
    return any(part[:4].lower() == b".git" and len(part) == 4 for part in parts) or (
        link and parts[-1].lower() == b".gitmodules"
    )


def directories_above(path: bytes) -> Iterable[bytes]:
    """The directories that a path lies in, the outermost first, each with its slash; the root is none of them."""
    parts = path.split(b"/")[:-1]
    return (b"".join(part + b"/" for part in parts[:depth]) for depth in range(1, len(parts) + 1))


def show(path: bytes) -> str:
    """A path for people and records: UTF-8 with surrogateescape."""
    return path.decode("utf-8", "surrogateescape")
