"""A document as it was written: values that know where they stand, and how the user would call them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agentix.plugins.experiments.documents.paths import Part, path_text


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where something stands."""

    file: Path
    line: int
    """From 1."""
    path: str = ""
    """As the user wrote it."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A value of a document."""

    file: Path
    line: int

    def data(self) -> Any:
        """The value as plain data."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Scalar(Node):
    """A text, number, boolean or nothing."""

    value: str | int | float | bool | None
    text: str
    """As it was written."""
    broken: bool = False
    """It was told already that it cannot be read."""

    def data(self) -> Any:
        """The value."""
        return self.value


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A value under its key. Where a short form was written out, `typed` is what the user wrote instead of the key."""

    key: Part
    line: int
    """Of the key."""
    node: Node
    typed: tuple[Part, ...] | None = None
    absolute: bool = False
    """`typed` is the path from the top of the document."""

    def path(self, parent: tuple[Part, ...]) -> tuple[Part, ...]:
        """The path as the user wrote it, below the parent's."""
        if self.typed is None:
            return (*parent, self.key)
        return self.typed if self.absolute else (*parent, *self.typed)


@dataclass(frozen=True, kw_only=True)
class Branch(Node):
    """A list or a mapping."""

    entries: tuple[Entry, ...] = ()
    _index: dict[Part, Entry] = field(default_factory=dict, repr=False, compare=False)

    def get(self, key: Part) -> Entry | None:
        """The entry of that key, or what the user called so."""
        if not self._index:
            for entry in self.entries:
                self._index[entry.key] = entry
            for entry in self.entries:
                if entry.typed is not None and not entry.absolute and len(entry.typed) == 1:
                    self._index.setdefault(entry.typed[0], entry)
        return self._index.get(key)

    def with_entries(self, entries: Sequence[Entry]) -> Branch:
        """The same branch with other entries."""
        return replace(self, entries=tuple(entries), _index={})


@dataclass(frozen=True, kw_only=True)
class MappingNode(Branch):
    """Keys, each once, in the order of the file."""

    def data(self) -> dict[str, Any]:
        """The mapping as plain data."""
        return {str(entry.key): entry.node.data() for entry in self.entries}

    def child(self, key: str) -> Node | None:
        """The value of a key."""
        entry = self.get(key)
        return entry.node if entry is not None else None

    def replaced(self, key: str, node: Node) -> MappingNode:
        """The same mapping with another value for a key that it has."""
        changed = [replace(entry, node=node) if entry.key == key else entry for entry in self.entries]
        return replace(self, entries=tuple(changed), _index={})


@dataclass(frozen=True, kw_only=True)
class ListNode(Branch):
    """Values in order."""

    def data(self) -> list[Any]:
        """The list as plain data."""
        return [entry.node.data() for entry in self.entries]


def items(file: Path, line: int, nodes: Sequence[Node]) -> ListNode:
    """A list of values that are called by their index."""
    entries = tuple(Entry(key=index, line=node.line, node=node) for index, node in enumerate(nodes))
    return ListNode(file=file, line=line, entries=entries)


def follow(root: Node, parts: Sequence[Part]) -> Iterator[tuple[Part, Entry, tuple[Part, ...]]]:
    """The entries along a path, as far as there are any, each with its path as the user wrote it."""
    node, typed = root, tuple[Part, ...]()
    for part in parts:
        entry = node.get(part) if isinstance(node, Branch) else None
        if entry is None:
            return
        typed = entry.path(typed)
        yield part, entry, typed
        node = entry.node


def place_of(root: Node, parts: Sequence[Part]) -> Place:
    """Where a path stands; of one that the document does not have, where the longest part of it stands."""
    steps = list(follow(root, parts))
    if not steps:
        return Place(file=root.file, line=root.line, path=path_text(parts))
    _, entry, typed = steps[-1]
    return Place(file=entry.node.file, line=entry.line, path=path_text([*typed, *parts[len(steps) :]]))
