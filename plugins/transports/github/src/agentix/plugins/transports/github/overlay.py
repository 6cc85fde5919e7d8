"""The tree with what is sent in it: what of that is there already, and what stands in its way."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentix.api import ShipRefused
from agentix.plugins.transports.github.git import Git
from agentix.plugins.transports.github.source import SourceFile, show

_KINDS = {b"120000": "a link", b"160000": "a submodule"}


@dataclass(frozen=True, kw_only=True)
class Blob:
    """A file in a tree."""

    mode: bytes
    id: bytes


@dataclass(frozen=True, kw_only=True)
class Overlay:
    """What is sent, against what is there."""

    wanted: Mapping[bytes, Blob]
    """By the path in the repository."""
    there: Mapping[bytes, Blob]
    """What the commit has below `dest`."""

    @property
    def changes(self) -> list[bytes]:
        """Paths of files that are not there as they are to be."""
        return [path for path, blob in self.wanted.items() if self.there.get(path) != blob]

    @property
    def new(self) -> int:
        """How many files are not there at all."""
        return sum(path not in self.there for path in self.wanted)


async def wanted_blobs(git: Git, files: Sequence[SourceFile], dest: str) -> dict[bytes, Blob]:
    """What every file would be in the repository, byte for byte: no filter and no attribute changes it."""
    named = await hash_files(git, files, write=False)
    return {_place(dest, file): Blob(mode=file.mode, id=name) for file, name in zip(files, named, strict=True)}


async def hash_files(git: Git, files: Sequence[SourceFile], *, write: bool) -> list[bytes]:
    """The names of their contents.

    Args:
        git: The repository.
        files: The files.
        write: Whether to store them too.
    """
    words = ["hash-object", "--no-filters", "--stdin-paths", *(["-w"] if write else [])]
    listed = b"".join(_quoted(os.fsencode(file.path)) + b"\n" for file in files)
    result = await git(*words, doing="reading the files", stdin=listed, timeout_s=git.timeout_s)
    found = result.stdout.split()
    if len(found) != len(files):
        raise ShipRefused(f"git read {len(found)} of {len(files)} files")
    return found


async def overlay(git: Git, commit: str | None, wanted: Mapping[bytes, Blob], dest: str) -> Overlay:
    """Compare with a commit.

    Raises:
        ShipRefused: A link, a submodule, a file or a directory stands where something else is to be.
    """
    if commit is None:
        return Overlay(wanted=wanted, there={})
    parts = dest.split("/")
    above = ["/".join(parts[: number + 1]) for number in range(len(parts))]
    on_the_way = await blobs(git, commit, above, "-t")
    _refuse_on_the_way(on_the_way, [os.fsencode(path) for path in above], dest)
    there = await blobs(git, commit, [dest], "-r")
    _refuse_in_the_way(there, wanted)
    return Overlay(wanted=wanted, there=there)


async def blobs(git: Git, commit: str, paths: Iterable[str], how: str) -> dict[bytes, Blob]:
    """The entries of a commit."""
    words = ("ls-tree", "-z", "--full-tree", how, commit, "--", *paths)
    result = await git(*words, doing="reading what is there")
    found = {}
    for entry in result.stdout.split(b"\0"):
        if entry:
            about, _, path = entry.partition(b"\t")
            mode, _, name = about.split(b" ")
            found[path] = Blob(mode=mode, id=name)
    return found


def _refuse_on_the_way(entries: Mapping[bytes, Blob], above: Sequence[bytes], dest: str) -> None:
    for path in above:
        if path in entries and entries[path].mode != b"040000":
            kind = _KINDS.get(entries[path].mode, "a file")
            raise ShipRefused(
                f"{show(path)} is {kind} in the repository, so that nothing can be put into {dest}: choose another dest"
            )


def _refuse_in_the_way(there: Mapping[bytes, Blob], wanted: Mapping[bytes, Blob]) -> None:
    directories = {path[:at] for path in there for at, byte in enumerate(path) if byte == ord("/")}
    for path in wanted:
        if path in directories:
            raise ShipRefused(f"{show(path)} is a directory in the repository and a file in what is sent")
        upwards = (path[:at] for at, byte in enumerate(path) if byte == ord("/"))
        for place in (*upwards, path):
            found = there.get(place)
            if found is not None and (place != path or found.mode in _KINDS):
                kind = _KINDS.get(found.mode, "a file")
                raise ShipRefused(f"{show(place)} is {kind} in the repository, in the way of {show(path)}")


def _place(dest: str, file: SourceFile) -> bytes:
    return os.fsencode(dest) + b"/" + file.name


def _quoted(path: bytes) -> bytes:
    """As git reads a path that may hold any byte."""
    escaped = (b"\\%03o" % byte if byte < 32 or byte in b'"\\' else bytes((byte,)) for byte in path)
    return b'"' + b"".join(escaped) + b'"'
