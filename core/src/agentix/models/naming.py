"""Names of trials: unique, readable, and safe as a file name whatever the instance is called."""

from __future__ import annotations

import hashlib
import re

_UNSAFE = re.compile(r"[^A-Za-z0-9._]+|\.{2,}|-{2,}")
_SAFE = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?")
_LIKE_A_HASH = re.compile(r"-[0-9a-f]{8}$")
_ROOM = 200
"""Bytes for all names of one id; file systems allow 255 and the index and suffixes need some."""
_LONGEST = 120


def slug(name: str, *, longest: int = _LONGEST) -> str:
    """A name that is safe in a path, the same for the same name and different for a different one.

    A safe name stays as it is. What had to be altered ends in eight hexadecimal digits of its hash, and so
    does a name that merely looks as if it did, so that no name can take the place of another.

    Args:
        name: Any text, lone surrogates included.
        longest: Characters that the slug may have, at least 16.
    """
    if len(name) <= longest and _SAFE.fullmatch(name) and ".." not in name and not _LIKE_A_HASH.search(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    stem = _UNSAFE.sub("-", name)[: longest - 9].strip("-.")
    return f"{stem}-{digest}" if stem else digest


def trial_id(instance_id: str, *others: str, index: int) -> str:
    """The id of one trial: the slugs of its names and its index, joined by dashes.

    Args:
        instance_id: Id of the instance, or of the case.
        others: What else tells trials apart, such as the names of agent and model.
        index: From 1, among the trials that share these names.
    """
    names = (instance_id, *others)
    longest = max(16, min(_LONGEST, _ROOM // len(names)))
    return "-".join([*(slug(name, longest=longest) for name in names), str(index)])
