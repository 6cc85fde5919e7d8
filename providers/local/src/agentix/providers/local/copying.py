"""The instructions COPY and ADD: which files of the context go where."""

from __future__ import annotations

import os
import posixpath
import re
import stat
import tarfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agentix.providers.local.ignore import IgnoreRules, segment_expression
from agentix.providers.local.image import Entry


@dataclass(frozen=True, kw_only=True)
class Copy:
    """One instruction, with its variables replaced."""

    sources: Sequence[str]
    target: str
    """Absolute; ends with a slash where it was written so."""
    uid: int = 0
    gid: int = 0
    mode: int | None = None
    unpacks: bool = False
    """Whether it is ADD, which unpacks archives."""


def resolve(copy: Copy, *, context: Path, rules: IgnoreRules, folders: Collection[str]) -> Iterator[Entry]:
    """The entries that an instruction makes, parents first.

    Args:
        copy: The instruction.
        context: The build context.
        rules: What the context leaves out.
        folders: Directories that exist already inside.

    Raises:
        ValueError: A source does not exist, leaves the context, or cannot be copied without a build.
    """
    found = [(pattern, path) for pattern in copy.sources for path in _matches(pattern, context=context, rules=rules)]
    into = copy.target.endswith("/") or len(found) > 1 or posixpath.normpath(copy.target) in folders
    for pattern, path in found:
        real = (context / path).resolve()
        if not real.is_relative_to(context.resolve()):
            raise ValueError(f"{pattern} is a link that leads out of the build context")
        target = posixpath.normpath(copy.target)
        if real.is_dir():
            yield _folder(copy, target, real)
            yield from _below(copy, real, path=path, target=target, rules=rules)
        else:
            if copy.unpacks and real.is_file() and tarfile.is_tarfile(real):
                raise ValueError(f"unpacking the archive {pattern} is not supported")
            yield _file(copy, posixpath.join(target, path.name) if into else target, real)


def _matches(pattern: str, *, context: Path, rules: IgnoreRules) -> list[PurePosixPath]:
    place = PurePosixPath(posixpath.normpath("/" + pattern.lstrip("/"))).relative_to("/")
    if ".." in PurePosixPath(pattern).parts and not pattern.startswith("/"):
        depth = 0
        for part in PurePosixPath(pattern).parts:
            depth += -1 if part == ".." else 1
            if depth < 0:
                raise ValueError(f"{pattern} lies outside the build context {context}")
    paths = [PurePosixPath()]
    for part in place.parts:
        paths = [child for path in paths for child in _children(context, path, part)]
    # The context itself is copied whatever is left out of it.
    paths = [path for path in paths if path == PurePosixPath() or not _is_left_out(path, context=context, rules=rules)]
    if not paths:
        raise ValueError(f"{pattern} does not exist in the build context {context}")
    return paths


def _is_left_out(path: PurePosixPath, *, context: Path, rules: IgnoreRules) -> bool:
    if not rules.ignores(path):
        return False
    # A pattern with `!` may bring back something below a directory that is left out.
    folder = context / path
    return not folder.is_dir() or not any(True for _ in _kept(folder, path, rules))


def _children(context: Path, path: PurePosixPath, part: str) -> list[PurePosixPath]:
    if not set(part) & set("*?[\\"):
        return [path / part] if os.path.lexists(context / path / part) else []
    try:
        expression = re.compile(segment_expression(part))
        names = sorted(entry.name for entry in (context / path).iterdir())
    except (re.error, NotADirectoryError):
        return []
    return [path / name for name in names if expression.fullmatch(name)]


def _kept(folder: Path, path: PurePosixPath, rules: IgnoreRules) -> Iterator[tuple[Path, PurePosixPath]]:
    for name in sorted(entry.name for entry in folder.iterdir()):
        here, place = folder / name, path / name
        ignored = rules.ignores(place)
        if here.is_dir() and not here.is_symlink():
            below = list(_kept(here, place, rules))
            if not ignored or below:
                yield here, place
            yield from below
        elif not ignored:
            yield here, place


def _below(copy: Copy, folder: Path, *, path: PurePosixPath, target: str, rules: IgnoreRules) -> Iterator[Entry]:
    for source, place in _kept(folder, path, rules):
        inside = posixpath.join(target, place.relative_to(path).as_posix())
        status = source.lstat()
        if stat.S_ISLNK(status.st_mode):
            yield Entry(path=inside, kind="link", uid=copy.uid, gid=copy.gid, target=str(source.readlink()))
        elif stat.S_ISDIR(status.st_mode):
            yield _folder(copy, inside, source)
        else:
            yield _file(copy, inside, source)


def _folder(copy: Copy, inside: str, source: Path) -> Entry:
    mode = stat.S_IMODE(source.stat().st_mode) if copy.mode is None else copy.mode
    return Entry(path=inside, kind="dir", mode=mode, uid=copy.uid, gid=copy.gid)


def _file(copy: Copy, inside: str, source: Path) -> Entry:
    status = source.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{source} is neither a file nor a directory")
    if not os.access(source, os.R_OK):
        raise ValueError(f"{source} cannot be read")
    mode = stat.S_IMODE(status.st_mode) if copy.mode is None else copy.mode
    return Entry(path=inside, kind="file", mode=mode, uid=copy.uid, gid=copy.gid, source=source)
