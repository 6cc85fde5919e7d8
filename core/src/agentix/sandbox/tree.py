"""The listing of a tree in a sandbox, as the sandbox tells it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from agentix.errors import WireError
from agentix.runtime import wire

if TYPE_CHECKING:
    from agentix.sandbox.connection import Connection

MAX_TREE_ENTRIES = 500_000
MAX_TREE_BYTES = 32 << 30
_RECORD = ("path", "kind", "executable", "size", "blob or target")
_BLOB = re.compile(r"[0-9a-f]{40}")
_MAX_PATH = 8192


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One file, link or other thing; directories are not listed."""

    kind: Literal["file", "link", "other"]
    executable: bool
    size: int
    """Bytes of content, or of the link's target."""
    blob: str
    """The id that git gives the content or the link's target; empty for anything else."""
    target: bytes = b""
    """Where a link leads; empty for anything else."""


Tree: TypeAlias = dict[bytes, TreeEntry]
"""Entries by their path relative to the listed directory."""


async def tree(
    connection: Connection, path: bytes, *, exclude: Sequence[str], max_entries: int, max_bytes: int
) -> Tree:
    """List a tree; see `Sandbox.tree`."""
    arguments = {
        "path": path,
        "exclude": [name.encode("utf-8", "surrogateescape") for name in exclude],
        "max_entries": max_entries,
        "max_bytes": max_bytes,
    }
    found: Tree = {}
    waiting = bytearray()
    async with connection.call("tree", arguments) as call:
        while (received := await call.receive()) is not None:
            waiting += received[1]
            while len(waiting) >= 4 and len(waiting) >= (stop := 4 + _batch_size(waiting)):
                for name, entry in _batch(bytes(waiting[4:stop])):
                    found[name] = entry
                    if len(found) > max_entries:
                        raise WireError("the sandbox's runtime listed more than was asked for")
                del waiting[:stop]
        await call.result()
    if waiting:
        raise WireError("the sandbox's runtime sent a listing that is cut off")
    return found


def _batch_size(waiting: bytearray) -> int:
    size = int.from_bytes(waiting[:4], "big")
    if size > wire.MAX_DATA:
        raise WireError(f"the sandbox's runtime sent a listing in batches of {size} bytes")
    return size


def _batch(raw: bytes) -> Iterator[tuple[bytes, TreeEntry]]:
    try:
        batch = wire.decode(raw)
    except wire.Malformed as error:
        raise WireError(f"the sandbox's runtime sent a listing that is none: {error}") from error
    if not isinstance(batch, list):
        raise WireError("the sandbox's runtime sent a listing that is none")
    for record in batch:
        yield _checked(record)


def _checked(record: Any) -> tuple[bytes, TreeEntry]:
    if (
        isinstance(record, list)
        and [type(field) for field in record[:4]] == [bytes, str, bool, int]
        and len(record) == len(_RECORD)
        and record[3] >= 0
        and _plain(record[0])
    ):
        name, kind, executable, size, content = record
        if kind == "link" and isinstance(content, bytes) and len(content) == size:
            blob = hashlib.sha1(b"blob %d\0" % size + content, usedforsecurity=False).hexdigest()
            return name, TreeEntry("link", False, size, blob, content)
        if isinstance(content, str) and (
            (kind == "other" and not content) or (kind == "file" and _BLOB.fullmatch(content))
        ):
            return name, TreeEntry(kind, executable, size, content)
    raise WireError("the sandbox's runtime sent a listing with an entry that is none")


def _plain(path: bytes) -> bool:
    return len(path) <= _MAX_PATH and b"\0" not in path and not {b"", b".", b".."} & set(path.split(b"/"))
