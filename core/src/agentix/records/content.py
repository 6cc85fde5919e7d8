"""The content hash of a directory: which bytes a case consists of, whatever else a file system says of them.

sha256 over one entry a file, link and directory, sorted by path. An entry is four fields: the type (`f`, `l`
or `d`), `x` where the owner may execute the file, the path relative to it as bytes, and the content or
the link's target. Each field is preceded by its length as 8 bytes, big-endian. The root's `.git` is left out.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from agentix.errors import DatasetError

_CHUNK = 1 << 20


def content_hash(directory: Path) -> str:
    """Hash a directory.

    Raises:
        DatasetError: It holds something else than files, links and directories, or changes while it is read.
    """
    digest = hashlib.sha256()
    try:
        for name, path in sorted((os.fsencode(path.relative_to(directory)), path) for path in _entries(directory)):
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode):
                _add(digest, b"f", b"x" if mode & stat.S_IXUSR else b"", name)
                _add_content(digest, path)
            elif stat.S_ISLNK(mode):
                _add(digest, b"l", b"", name, os.fsencode(path.readlink()))
            elif stat.S_ISDIR(mode):
                _add(digest, b"d", b"", name, b"")
            else:
                raise DatasetError(f"{path}: is neither a file, a link nor a directory")
    except OSError as error:
        raise DatasetError(f"{error.filename or directory}: cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def _entries(directory: Path) -> Iterator[Path]:
    below = [path for path in directory.iterdir() if path.name != ".git"]
    while below:
        path = below.pop()
        yield path
        if path.is_dir() and not path.is_symlink():
            below.extend(path.iterdir())


def _add(digest: hashlib._Hash, *fields: bytes) -> None:
    for field in fields:
        digest.update(len(field).to_bytes(8, "big"))
        digest.update(field)


def _add_content(digest: hashlib._Hash, path: Path) -> None:
    with path.open("rb") as file:
        expected = os.fstat(file.fileno()).st_size
        digest.update(expected.to_bytes(8, "big"))
        size = 0
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    if size != expected:
        raise DatasetError(f"{path}: changed while it was read")
