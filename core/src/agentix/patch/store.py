"""Where the contents of base trees are kept between trials: an object directory in the cache."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from agentix.bundle import cache_dir
from agentix.patch.objects import ObjectDir

_DAY_S = 86_400.0

_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tbare = true
\tprotectHFS = false
\tprotectNTFS = false
\texcludesFile = /dev/null
\tattributesFile = /dev/null
\thooksPath = /dev/null
[gc]
\tauto = 0
"""


class Pruned(NamedTuple):
    """What pruning removed."""

    files: int
    bytes: int


class BlobStore:
    """Blobs by name, shared by all runs of one user, so that the trials of one image fetch its files once.

    Every write is a rename, so any number of processes may use it at the same time. It belongs to one user:
    what another user could write to would decide what a patch is compared with.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.objects = ObjectDir(self.root / "objects")
        self.scratch = self.root / "scratch"
        self.git_dir = self.root / "git"
        """An empty repository whose only use is its configuration."""

    @classmethod
    def default(cls) -> BlobStore:
        """The store in the cache directory."""
        return cls(cache_dir() / "blobs" / str(os.getuid()))

    def open(self) -> None:
        """Make the directories."""
        if self.git_dir.is_dir() and self.scratch.is_dir() and self.objects.path.is_dir():
            return
        for path in (self.root, self.objects.path, self.scratch):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix="git-", dir=self.scratch))
        for name in ("refs", "objects"):
            (made / name).mkdir()
        (made / "HEAD").write_text("ref: refs/heads/none\n")
        (made / "config").write_text(_CONFIG)
        try:
            made.rename(self.git_dir)
        except OSError:
            # Another process was first.
            shutil.rmtree(made)
            if not self.git_dir.is_dir():
                raise

    def missing(self, blobs: Iterable[str]) -> set[str]:
        """Those of these blobs that are not in the store; the others are marked as used today."""
        stale = time.time() - _DAY_S
        absent = set()
        for blob in set(blobs):
            path = self.objects.file(blob)
            try:
                status = os.stat(path)  # noqa: PTH116 - called once a file of every tree
                if status.st_mtime < stale:
                    os.utime(path)
            except FileNotFoundError:
                absent.add(blob)
                continue
            if not status.st_size:
                absent.add(blob)
        return absent

    def prune(self, *, unused_for_s: float = 7 * _DAY_S, dry_run: bool = False) -> Pruned:
        """Delete what no trial has used for so many seconds, and what killed processes left.

        A blob counts as used when a trial started that needs it, with a resolution of a day: with less
        than a day plus the length of a trial, what a running trial needs may go, and that trial then fails
        with a `PatchError`.

        Args:
            unused_for_s: Seconds.
            dry_run: Only tell.
        """
        before = time.time() - unused_for_s
        abandoned = min(before, time.time() - _DAY_S)
        files = size = 0
        for path in self._stored():
            with suppress(FileNotFoundError):
                status = path.stat()
                if status.st_mtime < (before if path.parent != self.objects.path else abandoned):
                    if not dry_run:
                        path.unlink()
                    files, size = files + 1, size + status.st_size
        if self.scratch.is_dir() and not dry_run:
            for path in self.scratch.iterdir():
                with suppress(FileNotFoundError):
                    if path.stat().st_mtime < abandoned:
                        shutil.rmtree(path)
        return Pruned(files, size)

    def _stored(self) -> Iterator[Path]:
        if self.objects.path.is_dir():
            for entry in self.objects.path.iterdir():
                if entry.is_dir():
                    yield from entry.iterdir()
                else:
                    yield entry
