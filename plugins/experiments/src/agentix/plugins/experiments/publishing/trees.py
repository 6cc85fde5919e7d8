"""Files and directories as wholes: looked at, moved, linked and removed, never following a link."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from agentix.api import WalkEntry, walk
from agentix.plugins.experiments.publishing.places import NotPublished

_NO_LINKS = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES})
_IN_THE_WAY = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.EISDIR, errno.ENOTDIR})


def stamp_of(path: Path) -> str:
    """What is there, by names, sizes and times: another one where anything was written since.

    Raises:
        NotPublished: There is something else than files and directories.
        FileNotFoundError: There is nothing.
    """
    found = hashlib.blake2b(digest_size=12)
    for entry in plain_files(path):
        about = (len(entry.name), entry.name, entry.size, entry.mtime_ns, entry.inode)
        found.update(b"%d:%b:%d:%d:%d;" % about)
    return found.hexdigest()


def plain_files(path: Path) -> Iterator[WalkEntry]:
    """Every file below a directory; of a file, it itself.

    Raises:
        NotPublished: There is something else than files and directories.
        FileNotFoundError: There is nothing.
    """
    for entry in walk(path):
        if entry.kind == "file":
            yield entry
        elif entry.kind != "directory":
            where = entry.below(path)
            raise NotPublished(f"{where}: is neither a file nor a directory, and only those are published")


def put(source: Path, target: Path, *, trash: Path) -> None:
    """Move a file or a directory to where something may stand already, which is then gone.

    At any moment there is the old one, the new one or, between two directories, none; never a part of one.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        source.replace(target)
    except OSError as error:
        if error.errno not in _IN_THE_WAY:
            raise
        remove(target, trash=trash)
        source.replace(target)


def remove(path: Path, *, trash: Path) -> None:
    """Remove a file or a directory at once; what follows in `trash` may take its time, or happen next time."""
    aside = trash / uuid4().hex
    try:
        path.rename(aside)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno != errno.ENOENT:
            _make_removable(path)
            path.rename(aside)
    clear(aside)


def clear(path: Path) -> None:
    """Remove whatever is there."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path)
    except PermissionError:
        _make_removable(path)
        shutil.rmtree(path)


def _make_removable(path: Path) -> None:
    with suppress(OSError):
        path.chmod(0o700)
    for place, names, _ in os.walk(path):
        for name in names:
            below = Path(place, name)
            if not below.is_symlink():
                below.chmod(0o700)


def link(source: Path, target: Path, *, room: Path) -> None:
    """Have the same files at another place too, as links to the same bytes where the disk has those, else as copies.

    Args:
        source: A file or a directory.
        target: Where; what is there goes.
        room: A directory for what is not whole yet, on the same disk as the target.
    """
    new = room / uuid4().hex
    try:
        if stat.S_ISREG(source.lstat().st_mode):
            _link_file(source, new)
        else:
            new.mkdir()
            for entry in plain_files(source):
                there = entry.below(new)
                there.parent.mkdir(parents=True, exist_ok=True)
                _link_file(entry.below(source), there)
        put(new, target, trash=room)
    finally:
        clear(new)


def _link_file(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copy2(source, target, follow_symlinks=False)


def is_linked(source: Path, target: Path) -> bool:
    """Whether the target is what `link` has made of the source."""
    try:
        one = {entry.name: (entry.size, entry.mtime_ns) for entry in plain_files(source)}
        other = {entry.name: (entry.size, entry.mtime_ns) for entry in plain_files(target)}
    except (OSError, NotPublished):
        return False
    return one == other
