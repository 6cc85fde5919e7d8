"""What is left of a document without the values that are wrong, so that the rest can be checked in the same go."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from agentix.plugins.experiments.documents.nodes import Branch, Entry, ListNode, Node, Scalar, follow
from agentix.plugins.experiments.documents.paths import Part

Loc = tuple[Part, ...]


def pruned(root: Node, wrong: Collection[Loc], *, as_text: Collection[Loc] = ()) -> Node | None:
    """The document without the values at some paths; of a path that it has only a part of, without that part.

    Args:
        root: The document.
        wrong: What to leave out.
        as_text: Which of these stay, as the text that they were written as.

    Returns:
        `None` where that leaves nothing.
    """
    cut = {loc[: len(list(follow(root, loc)))]: loc in as_text for loc in wrong}
    return None if () in cut else _without(root, cut)


def _without(node: Node, cut: dict[Loc, bool]) -> Node:
    if not cut or not isinstance(node, Branch):
        return node
    kept: list[Entry] = []
    for entry in node.entries:
        below = {loc[1:]: keep for loc, keep in cut.items() if loc[0] == entry.key}
        value = _without(entry.node, below) if () not in below else entry.node
        if () in below:
            if not below[()] or not isinstance(value, Scalar):
                continue
            value = replace(value, value=value.text)
        # An item keeps the index that the user knows it by.
        typed = (entry.key,) if isinstance(node, ListNode) and entry.typed is None else entry.typed
        key = len(kept) if isinstance(node, ListNode) else entry.key
        kept.append(replace(entry, key=key, typed=typed, node=value))
    return node.with_entries(kept)
