"""Snapshots: what is run is a copy that is named by its content, so that no edit can change it."""

from __future__ import annotations

import errno
import shutil
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import anyio.to_thread

from agentix.api import Case, DatasetError, HostError, content_hash
from agentix.plugins.experiments.cases.copying import copy_tree
from agentix.plugins.experiments.cases.workspace import workspace

SNAPSHOTS = "cases"
"""The directory of a run that they are in."""

_TRIES = 3
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def take_snapshot(source: Path, snapshots: Path, *, work: Path) -> tuple[str, Path]:
    """Copy a directory to `snapshots/<hash>`, unless that is there and whole.

    Args:
        source: The directory.
        snapshots: Where snapshots are kept.
        work: A directory on the same file system, for what is not finished.

    Returns:
        The content hash, and the snapshot.

    Raises:
        DatasetError: It cannot be read, holds something that is no content, or changes while it is read.
        HostError: There is no room, or no right, to write the copy.
    """
    if snapshots.resolve().is_relative_to(source.resolve()):
        raise DatasetError(
            f"{source}: the run's own directory, {snapshots.parent}, is inside of it; choose another --out"
        )
    for left in reversed(range(_TRIES)):
        try:
            digest = content_hash(source)
        except DatasetError:
            # It may have been edited that very moment.
            if left:
                continue
            raise
        place = snapshots / digest
        if _is_whole(place, digest):
            return digest, place
        copy = work / f"copy-{uuid4().hex}"
        try:
            copy_tree(source, copy)
            # Equal to what was read before the copy began: an edit between the two would show.
            if content_hash(copy) != digest:
                continue
            _put(copy, place, digest, work=work)
        except OSError as error:
            if isinstance(error, FileNotFoundError | NotADirectoryError) or _is_below(error.filename, source):
                continue
            problem = "no space left" if error.errno in _FULL else error.strerror
            raise HostError(
                f"{snapshots}: the case {source} cannot be copied there: {problem}",
                hint="Make room there and run it again." if error.errno in _FULL else None,
            ) from error
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        return digest, place
    raise DatasetError(f"{source}: changes while it is read; run it again when nobody is editing it")


async def with_case(case: Case, directory: Path, *, snapshots: Path) -> Case:
    """The same case with other content, such as after a repair.

    Args:
        case: A case that is a directory.
        directory: The content that it shall have.
        snapshots: Where snapshots are kept.

    Raises:
        DatasetError: The directory cannot be a case.
        HostError: The snapshot cannot be written.
    """

    def take() -> tuple[str, Path]:
        with workspace(snapshots) as work:
            return take_snapshot(directory, snapshots, work=work)

    digest, place = await anyio.to_thread.run_sync(take)
    return snapshotted(case, digest, place)


def snapshotted(case: Case, digest: str, place: Path) -> Case:
    """A case that is run from its snapshot."""
    instance = {**case.instance, "path": str(place)}
    options = {**case.options, "path": str(place)} if case.source != "dataset" else case.options
    return replace(case, sha256=digest, directory=place, instance=instance, options=options)


async def is_intact(case: Case) -> bool:
    """Whether what would be run still is what the case's hash says."""
    if case.directory is None:
        return True
    return await anyio.to_thread.run_sync(_is_whole, case.directory, case.sha256)


def _is_whole(place: Path, digest: str | None) -> bool:
    try:
        return place.is_dir() and content_hash(place) == digest
    except DatasetError:
        return False


def _put(copy: Path, place: Path, digest: str, *, work: Path) -> None:
    for _ in range(_TRIES):
        try:
            copy.rename(place)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        else:
            return
        if _is_whole(place, digest):
            return
        # Not what its name says: it makes room.
        place.rename(work / f"damaged-{uuid4().hex}")
    raise OSError(errno.EBUSY, "somebody else keeps writing there")


def _is_below(filename: object, source: Path) -> bool:
    return isinstance(filename, str | bytes) and Path(_text(filename)).is_relative_to(source)


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode("utf-8", "surrogateescape")
