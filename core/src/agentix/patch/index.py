"""The git index file, version 2, read and written without git.

Format: git's documentation, "gitformat-index". All times and inode numbers are zero, since nothing here has
a working tree.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from pathlib import Path

from agentix.patch.manifest import Item

_HEADER = struct.Struct(">4sLL")
_ENTRY = struct.Struct(">24xL12x20sH")
_LONG_NAME = 0xFFF


def write_index(path: Path, items: Mapping[bytes, Item]) -> None:
    """Write an index that holds these files."""
    parts = [_HEADER.pack(b"DIRC", 2, len(items))]
    for name in sorted(items):
        item = items[name]
        parts.append(_ENTRY.pack(item.mode, bytes.fromhex(item.blob), min(len(name), _LONG_NAME)))
        parts.append(name)
        parts.append(bytes(8 - (_ENTRY.size + len(name)) % 8))
    data = b"".join(parts)
    path.write_bytes(data + hashlib.sha1(data, usedforsecurity=False).digest())


def read_index(path: Path) -> dict[bytes, Item]:
    """The files that an index holds.

    Raises:
        ValueError: It is not such an index, or holds entries of an unfinished merge.
    """
    data = path.read_bytes()
    magic, version, count = _HEADER.unpack_from(data)
    if magic != b"DIRC" or version != 2:
        raise ValueError(f"not an index of version 2: {magic!r} {version}")
    items: dict[bytes, Item] = {}
    at = _HEADER.size
    for _ in range(count):
        mode, blob, flags = _ENTRY.unpack_from(data, at)
        if flags & 0xF000:
            raise ValueError("the index holds more than plain entries")
        start = at + _ENTRY.size
        end = data.index(b"\0", start)
        items[data[start:end]] = Item(mode, blob.hex())
        at += (end - at) // 8 * 8 + 8
    return items
