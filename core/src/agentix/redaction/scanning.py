"""The last look at what is about to leave."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from agentix.files import WalkEntry, open_plain, walk
from agentix.redaction.names import ends_within
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
    for entry in walk(path):
        check()
        relative = os.fsdecode(entry.name)
        name = relative.rpartition("/")[2] or path.name
        shown = secrets.text(relative) or "."
        yield from _named(name, shown, secrets)
        if "/" in relative and ends_within(secrets, relative, name):
            yield Finding(path=shown, form="plain", where="path")
        yield from _inside(entry, entry.below(path), shown, secrets, check)


def _inside(entry: WalkEntry, path: Path, shown: str, secrets: Secrets, check: Check) -> Iterator[Finding]:
    if entry.kind == "link":
        yield from _named(str(path.readlink()), shown, secrets, where="link")
    elif entry.kind == "file":
        from agentix.redaction.containers import Inside

        with open_plain(path) as file:
            for form, where in Inside(secrets, size=entry.size, check=check).hits(file):
                yield Finding(path=shown, form=form, where=where)


def _named(name: str, shown: str, secrets: Secrets, *, where: str = "name") -> Iterator[Finding]:
    for form in sorted({form for _, _, form in secrets.spans(os.fsencode(name))}):
        yield Finding(path=shown, form=form, where=where)
