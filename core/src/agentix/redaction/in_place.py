"""Takes known values out of files where they are."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from agentix.files import open_plain
from agentix.redaction.blocks import Filter, Search, piped
from agentix.redaction.holes import mostly_holes, without_holes
from agentix.redaction.names import ends_within, free_name
from agentix.redaction.pieces import NotText, as_before, as_utf8, pieces
from agentix.redaction.sorts import HEAD, encoding_of
from agentix.redaction.spans import MASK

if TYPE_CHECKING:
    from agentix.redaction.secrets import Secrets


def cleaned(secrets: Secrets, directory: Path) -> Iterator[str]:
    """Clean the files below a directory and their names, and tell which could not be cleaned."""
    _rename(secrets, directory)
    for place, _, names in os.walk(directory):
        for name in names:
            path = Path(place, name)
            try:
                about = path.lstat()
                if stat.S_ISREG(about.st_mode) and holds(secrets, path) and not _rewritten(secrets, path, about):
                    yield str(path.relative_to(directory))
            except OSError:
                yield str(path.relative_to(directory))


def _rename(secrets: Secrets, directory: Path) -> None:
    for place, directories, files in os.walk(directory, topdown=False):
        taken = {*directories, *files}
        for name in (*files, *directories):
            masked = secrets.text(name)
            if masked == name:
                if not ends_within(secrets, str(Path(place, name).relative_to(directory)), name):
                    continue
                masked = MASK
            new = free_name(masked, taken)
            with suppress(OSError):
                Path(place, name).rename(Path(place, new))
                taken.add(new)


def holds(secrets: Secrets, path: Path) -> bool:
    """Whether a value stands in a file."""
    with open_plain(path) as file:
        search = Search(secrets.spans, reach=secrets.reach)
        if mostly_holes(os.fstat(file.fileno())):
            return any(search.feed(piece) for piece in without_holes(file))
        head = file.read(HEAD)
        file.seek(0)
        if any(search.feed(piece) for piece in pieces(file)):
            return True
        if encoding_of(head)[0] == "utf-8":
            return False
        file.seek(0)
        text = Search(secrets.spans, reach=secrets.reach)
        with suppress(NotText):
            return any(text.feed(piece) for piece in as_utf8(head, pieces(file)))
    return False


def _rewritten(secrets: Secrets, path: Path, about: os.stat_result) -> bool:
    if mostly_holes(about):
        return False
    temp = path.with_name(f".{uuid4().hex}.tmp")
    try:
        with open_plain(path) as source, temp.open("xb") as target:
            head = source.read(HEAD)
            source.seek(0)
            try:
                text = piped(as_utf8(head, pieces(source)), Filter([secrets.spans], reach=secrets.reach))
                target.writelines(as_before(head, text))
            except NotText:
                return False
        temp.chmod(stat.S_IMODE(about.st_mode))
        os.utime(temp, ns=(about.st_atime_ns, about.st_mtime_ns))
        temp.replace(path)
    finally:
        with suppress(FileNotFoundError):
            temp.unlink()
    return True
