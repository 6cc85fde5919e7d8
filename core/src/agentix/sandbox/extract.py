"""Unpacking what an untrusted sandbox sends: nothing lands outside of one directory, and nothing grows over a limit."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from agentix.runtime import archive

_MAX_PATH = 4096
_MAX_NAME = 255
_MAX_REFUSED = 1000
_KINDS = (archive.FILE, archive.DIRECTORY, archive.LINK)
_NAMES = {b"1": "hard link", b"3": "character device", b"4": "block device", b"6": "named pipe"}
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """One thing that was left out of a download."""

    path: bytes
    """Relative to what was downloaded; empty for that itself, or for everything after it."""
    reason: str


class Extractor:
    """Writes entries below a directory, or to a path where the entry's own path is empty.

    What is fit is what tarfile's `data` filter lets through (PEP 706), found by stricter means: every directory is
    opened without following links, so that no earlier entry can lead a later one elsewhere, and a link's target may
    climb at its beginning only, so that following any chain of links stays below the directory too.

    Args:
        local: The directory, or the file.
        max_bytes: How much content is written.
        max_entries: How many entries.
    """

    def __init__(self, local: Path, *, max_bytes: int, max_entries: int) -> None:
        self._local = local
        self._max_bytes = max_bytes
        self._max_entries = max_entries
        self._root = -1
        self._parent: tuple[tuple[bytes, ...], int] | None = None
        self._file = -1
        self._mode = 0o644
        self._left_out = 0
        self._refused: list[Refusal] = []
        self.entries = 0
        self.bytes = 0
        self.full = False
        """Whether a limit was reached that an honest runtime would have kept to: take nothing more."""

    @property
    def refused(self) -> tuple[Refusal, ...]:
        """What was left out."""
        if self._left_out:
            return (*self._refused, Refusal(path=b"", reason=f"{self._left_out} more were refused"))
        return tuple(self._refused)

    def begin(self, entry: archive.Entry) -> None:
        """Make an entry; a file's content follows."""
        self._complete()
        if entry.path == b"." and entry.kind == archive.DIRECTORY and not self.entries:
            self._directory(())
        elif self.entries >= self._max_entries:
            self._stop(f"there are more than {self._max_entries} entries; the rest was left out")
        elif self.bytes + entry.size > self._max_bytes:
            self._stop(
                f"there are more than {self._max_bytes} bytes; {os.fsdecode(entry.path)!r} and the rest was left out"
            )
        else:
            try:
                self._make(entry)
                self.entries += 1
            except _Refused as refused:
                self._refuse(entry.path, str(refused))
            except OSError as error:
                self._refuse(entry.path, f"could not be written: {error.strerror}")

    def write(self, content: bytes) -> None:
        """The next piece of the last entry's content."""
        if self.full:
            return
        self.bytes += len(content)
        if self.bytes > self._max_bytes:
            self._stop(f"there are more than {self._max_bytes} bytes; the rest was left out")
        elif self._file >= 0:
            view = memoryview(content)
            while view:
                view = view[os.write(self._file, view) :]

    def close(self) -> None:
        """Finish the last file."""
        self._complete()
        for fd in (self._parent[1] if self._parent else -1, self._root):
            if fd >= 0:
                os.close(fd)
        self._parent, self._root = None, -1

    def _stop(self, reason: str) -> None:
        self.full = True
        self._refuse(b"", reason)

    def _refuse(self, path: bytes, reason: str) -> None:
        if len(self._refused) < _MAX_REFUSED:
            self._refused.append(Refusal(path=path[:_MAX_PATH], reason=reason))
        else:
            self._left_out += 1

    def _make(self, entry: archive.Entry) -> None:
        if entry.kind not in _KINDS:
            raise _Refused(f"a {_NAMES.get(entry.kind, 'thing of unknown kind')} is not copied")
        if entry.size and entry.kind != archive.FILE:
            raise _Refused("it has content, which only a file can have")
        if not entry.path:
            self._make_single(entry)
            return
        parts = _parts(entry.path)
        if entry.kind == archive.DIRECTORY:
            self._directory(parts)
            return
        if entry.kind == archive.LINK:
            _check_target(entry.target, depth=len(parts) - 1)
        parent, name = self._directory(parts[:-1]), parts[-1]
        _clear(name, parent)
        if entry.kind == archive.LINK:
            os.symlink(entry.target, name, dir_fd=parent)
        else:
            self._open(name, entry.mode, parent)

    def _make_single(self, entry: archive.Entry) -> None:
        if entry.kind != archive.FILE or self.entries:
            raise _Refused("only a single file can have no path")
        self._local.parent.mkdir(parents=True, exist_ok=True)
        parent = os.open(self._local.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            name = os.fsencode(self._local.name)
            _clear(name, parent)
            self._open(name, entry.mode, parent)
        finally:
            os.close(parent)

    def _open(self, name: bytes, mode: int, parent: int) -> None:
        self._file = os.open(
            name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=parent
        )
        executable = mode & 0o111 if mode & 0o100 else 0
        self._mode = (mode & 0o644) | 0o600 | (executable & 0o755)

    def _directory(self, parts: tuple[bytes, ...]) -> int:
        if self._parent is not None:
            if self._parent[0] == parts:
                return self._parent[1]
            os.close(self._parent[1])
            self._parent = None
        if self._root < 0:
            self._local.mkdir(parents=True, exist_ok=True)
            self._root = os.open(self._local, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fd = os.dup(self._root)
        try:
            for part in parts:
                try:
                    below = os.open(part, _DIRECTORY, dir_fd=fd)
                except FileNotFoundError:
                    os.mkdir(part, 0o755, dir_fd=fd)
                    below = os.open(part, _DIRECTORY, dir_fd=fd)
                os.close(fd)
                fd = below
        except NotADirectoryError as error:
            os.close(fd)
            raise _Refused("its path leads over something that is not a directory") from error
        except BaseException:
            os.close(fd)
            raise
        self._parent = parts, fd
        return fd

    def _complete(self) -> None:
        if self._file >= 0:
            os.fchmod(self._file, self._mode)
            os.close(self._file)
            self._file = -1


class _Refused(Exception):
    """The entry is left out."""


def _parts(path: bytes) -> tuple[bytes, ...]:
    parts = tuple(path.split(b"/"))
    if len(path) > _MAX_PATH or any(len(part) > _MAX_NAME for part in parts):
        raise _Refused("its path is too long")
    if b"\0" in path or any(part in (b"", b".", b"..") for part in parts):
        raise _Refused("its path is not a plain relative one")
    return parts


def _check_target(target: bytes, *, depth: int) -> None:
    parts = [part for part in target.split(b"/") if part not in (b"", b".")]
    climbs = next((position for position, part in enumerate(parts) if part != b".."), len(parts))
    if not target or b"\0" in target or len(target) > _MAX_PATH:
        raise _Refused("it is a link with a target that is none")
    if target.startswith(b"/"):
        raise _Refused(f"it is a link to the absolute path {os.fsdecode(target)!r}")
    if climbs > depth or b".." in parts[climbs:]:
        raise _Refused(f"it is a link that may lead outside, to {os.fsdecode(target)!r}")


def _clear(name: bytes, parent: int) -> None:
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        pass
    except IsADirectoryError as error:
        raise _Refused("there is a directory of that name already") from error
