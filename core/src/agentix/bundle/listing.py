"""Lists the files of a tree, makes them all alike, and finds what was changed since."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from agentix.bundle.description import FILE, Entry, Kind
from agentix.errors import BundleError

TIME_NS = 315_532_800 * 10**9
"""The time of every file, 1980-01-01, the earliest that a zip can hold."""
COMPILED = "__pycache__"
"""Made from what is listed, and therefore never listed."""

_CHUNK = 1 << 20


def scan(top: Path, *, known: Mapping[str, Entry] | None = None) -> list[Entry]:
    """Every file below a directory, in order.

    Args:
        top: The directory.
        known: Entries of files whose content was hashed before.

    Raises:
        BundleError: Something is no file, link or directory, or cannot be part of a bundle.
    """
    known = known or {}
    try:
        return sorted(_scan(os.fspath(top), "", known), key=lambda entry: entry.path)
    except ValueError as error:
        raise BundleError(f"this cannot be in a bundle: {_reason(error)}") from None


def _scan(top: str, place: str, known: Mapping[str, Entry]) -> Iterator[Entry]:
    with os.scandir(f"{top}/{place}" if place else top) as found:
        entries = [entry for entry in found if entry.name != COMPILED and (place or entry.name != FILE)]
    if not entries and place:
        yield Entry(path=place, kind="dir")
    for entry in entries:
        path = f"{place}/{entry.name}" if place else entry.name
        if entry.is_symlink():
            yield Entry(path=path, kind="link", target=os.readlink(entry.path))  # noqa: PTH115
        elif entry.is_dir():
            yield from _scan(top, path, known)
        elif path in known:
            yield known[path]
        elif entry.is_file():
            status = entry.stat()
            kind: Kind = "program" if status.st_mode & stat.S_IXUSR else "file"
            yield Entry(path=path, kind=kind, size=status.st_size, sha256=hash_file(Path(entry.path)))
        else:
            raise BundleError(f"this cannot be in a bundle: {path} is neither a file nor a directory")


def hash_file(path: Path) -> str:
    """SHA-256 of a file's content."""
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(top: Path) -> None:
    """Give every file and directory the same time, and the mode of its kind."""
    for folder, folders, names in os.walk(top, topdown=False):
        for name in (*names, *folders):
            path = f"{folder}/{name}"
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode):
                wanted = 0o555 if status.st_mode & stat.S_IXUSR else 0o444
                if stat.S_IMODE(status.st_mode) != wanted:
                    os.chmod(path, wanted)  # noqa: PTH101
                if status.st_mtime_ns == TIME_NS:
                    continue
            os.utime(path, ns=(TIME_NS, TIME_NS), follow_symlinks=False)
        os.chmod(folder, 0o755)  # noqa: PTH101, S103
        os.utime(folder, ns=(TIME_NS, TIME_NS))


def first_change(top: Path, entries: Sequence[Entry], *, contents: bool = False) -> str | None:
    """What is not as it was sealed, in words; `None` where all is.

    Args:
        top: The tree.
        entries: What it consists of.
        contents: Read every file too, instead of looking at kinds, sizes, modes and times only.
    """
    folders = {""}
    for entry in entries:
        path = f"{top}/{entry.path}"
        try:
            status = os.lstat(path)
        except OSError as error:
            return f"{entry.path}: {error.strerror}"
        if _kind(status.st_mode) != entry.kind:
            return f"{entry.path} is no longer a {entry.kind}"
        if entry.kind == "link":
            if os.readlink(path) != entry.target:  # noqa: PTH115
                return f"{entry.path} leads elsewhere"
        elif entry.kind != "dir":
            if status.st_size != entry.size or status.st_mtime_ns != TIME_NS:
                return f"{entry.path} was changed"
            if contents and hash_file(Path(path)) != entry.sha256:
                return f"{entry.path} has another content"
        parent = entry.path.rpartition("/")[0] if entry.kind != "dir" else entry.path
        while parent not in folders:
            folders.add(parent)
            parent = parent.rpartition("/")[0]
    return _changed_folder(top, folders)


def _changed_folder(top: Path, folders: set[str]) -> str | None:
    """A directory whose names are not those that it was sealed with, which its time tells."""
    for folder in sorted(folders):
        path = f"{top}/{folder}" if folder else os.fspath(top)
        # The description lies in the tree and may be written again, with another name.
        if folder and os.stat(path).st_mtime_ns != TIME_NS:  # noqa: PTH116
            return f"{folder} has other files"
        for compiled in _compiled(path):
            if compiled.st_mtime_ns != TIME_NS:
                return f"a compiled module in {PurePosixPath(folder) / COMPILED} was changed"
    return None


def _compiled(folder: str) -> Iterator[os.stat_result]:
    path = f"{folder}/{COMPILED}"
    try:
        yield os.stat(path)  # noqa: PTH116
        with os.scandir(path) as found:
            for entry in found:
                yield entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return


def _kind(mode: int) -> str | None:
    if stat.S_ISREG(mode):
        return "program" if mode & stat.S_IXUSR else "file"
    return "link" if stat.S_ISLNK(mode) else "dir" if stat.S_ISDIR(mode) else None


def _reason(error: ValueError) -> str:
    errors = getattr(error, "errors", None)
    return str(errors(include_url=False)[0]["msg"]).removeprefix("Value error, ") if errors else str(error)
