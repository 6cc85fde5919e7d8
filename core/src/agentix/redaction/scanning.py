"""The last look at what is about to leave."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from agentix.redaction.names import ends_within
from agentix.redaction.opening import opened
from agentix.redaction.pieces import Check, unchecked
from agentix.redaction.results import Finding
from agentix.redaction.secrets import Secrets


def scan(path: Path, secrets: Secrets, *, check: Check | None = None) -> list[Finding]:
    """Look for known values in a file or a tree: in what files hold, in archives, and in names.

    An archive that cannot be looked into (encrypted, damaged, too large, of another kind) is a finding too. Links are
    not followed; where they lead to is looked at as a name.

    Args:
        path: What is about to leave.
        secrets: The known values; with none there is nothing to find.
        check: Called often; what it raises ends the work, such as that it is no longer wanted.

    Returns:
        At most one finding for every form in every file or member of an archive, in the order of the paths.

    Raises:
        OSError: Something cannot be read.
    """
    return list(_findings(path, secrets, check or unchecked)) if secrets else []


def _findings(path: Path, secrets: Secrets, check: Check) -> Iterator[Finding]:
    if not path.is_dir() or path.is_symlink():
        yield from _named(path.name, ".", secrets)
        yield from _in_file(path, ".", secrets, check)
        return
    waiting = [""]
    while waiting:
        place = waiting.pop()
        for entry in sorted(os.scandir(path / place), key=lambda entry: entry.name):
            check()
            relative = f"{place}/{entry.name}" if place else entry.name
            shown = secrets.text(relative)
            yield from _named(entry.name, shown, secrets)
            if "/" in relative and ends_within(secrets, relative, entry.name):
                yield Finding(path=shown, form="plain", where="path")
            if entry.is_dir(follow_symlinks=False):
                waiting.append(relative)
            else:
                yield from _in_file(Path(entry.path), shown, secrets, check)


def _in_file(path: Path, shown: str, secrets: Secrets, check: Check) -> Iterator[Finding]:
    about = path.lstat()
    if stat.S_ISLNK(about.st_mode):
        yield from _named(str(path.readlink()), shown, secrets, where="link")
    elif stat.S_ISREG(about.st_mode):
        from agentix.redaction.containers import Inside

        with opened(path) as file:
            for form, where in Inside(secrets, size=about.st_size, check=check).hits(file):
                yield Finding(path=shown, form=form, where=where)


def _named(name: str, shown: str, secrets: Secrets, *, where: str = "name") -> Iterator[Finding]:
    for form in sorted({form for _, _, form in secrets.spans(os.fsencode(name))}):
        yield Finding(path=shown, form=form, where=where)
