"""Loose git objects: the format that contents and trees are kept in, read and written without git.

The format is described in git's documentation under "Git Internals - Git Objects": zlib over
`<type> <size>`, a NUL and the content, named by the sha1 of that.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from agentix.patch.manifest import Item

CHUNK = 1 << 20
_TREE_MODE = b"40000"


class ObjectDir:
    """A git object directory that many processes may write to at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, blob: str) -> Path:
        """Where an object lies or would lie."""
        return self.path / blob[:2] / blob[2:]

    def has(self, blob: str) -> bool:
        """Whether an object is there; an empty file is what a crash of the machine leaves, not an object."""
        try:
            return os.stat(self.file(blob)).st_size > 0  # noqa: PTH116 - called once a file of every tree
        except FileNotFoundError:
            return False

    def add_stream(self, source: BinaryIO, size: int) -> str:
        """Store a blob of exactly `size` bytes and return its name; memory stays bounded.

        Raises:
            OSError: It cannot be written, or `source` holds another number of bytes.
        """
        return self._write(b"blob %d\0" % size, _exactly(source, size))

    def add(self, kind: str, content: bytes) -> str:
        """Store an object and return its name."""
        return self._write(f"{kind} {len(content)}\0".encode(), iter((content,)))

    def add_tree(self, items: Mapping[bytes, Item]) -> str:
        """Store the tree of these files, with its subtrees, and return its name."""
        files: dict[bytes, Item] = {}
        subtrees: dict[bytes, dict[bytes, Item]] = {}
        for path, item in items.items():
            head, slash, rest = path.partition(b"/")
            if slash:
                subtrees.setdefault(head, {})[rest] = item
            else:
                files[head] = item
        rows = [(name, b"%o" % item.mode, item.blob) for name, item in files.items()]
        rows += [(name + b"/", _TREE_MODE, self.add_tree(below)) for name, below in subtrees.items()]
        return self.add(
            "tree",
            b"".join(mode + b" " + name.rstrip(b"/") + b"\0" + bytes.fromhex(sha) for name, mode, sha in sorted(rows)),
        )

    def read(self, blob: str) -> Iterator[bytes]:
        """The content of a blob, in pieces.

        Raises:
            OSError: It is not there or is damaged.
        """
        unpack = zlib.decompressobj()
        header: bytes | None = b""
        with self.file(blob).open("rb") as source:
            while piece := source.read(CHUNK):
                try:
                    data = unpack.decompress(piece)
                except zlib.error as error:
                    raise OSError(f"object {blob} is damaged: {error}") from error
                if header is not None:
                    header += data
                    if b"\0" not in header:
                        continue
                    data, header = header.partition(b"\0")[2], None
                yield data
        if not unpack.eof:
            raise OSError(f"object {blob} is damaged: it ends early")

    def _write(self, header: bytes, content: Iterator[bytes]) -> str:
        self.path.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha1(header, usedforsecurity=False)
        pack = zlib.compressobj(1)
        handle, name = tempfile.mkstemp(prefix="new-", dir=self.path)
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as target:
                target.write(pack.compress(header))
                for piece in content:
                    digest.update(piece)
                    target.write(pack.compress(piece))
                target.write(pack.flush())
            place = self.file(digest.hexdigest())
            place.parent.mkdir(exist_ok=True)
            temporary.replace(place)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return digest.hexdigest()


def blob_name(content: bytes) -> str:
    """The name of the blob that holds these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _exactly(source: BinaryIO, size: int) -> Iterator[bytes]:
    left = size
    while left:
        piece = source.read(min(CHUNK, left))
        if not piece:
            raise OSError(f"the file ends {left} bytes early")
        left -= len(piece)
        yield piece
    if source.read(1):
        raise OSError("the file is longer than it was")
