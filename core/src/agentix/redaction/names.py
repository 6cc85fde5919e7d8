"""Names of files without secrets, also those that only a whole path spells."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from agentix.redaction.spans import MASK

if TYPE_CHECKING:
    from agentix.redaction.secrets import Secrets

NAME = "redacted"
"""What stands in a file's name in the place of the mask, which several stores do not take in a name."""
_LONGEST = 240
"""Bytes of a name to which a number may still be added."""


def ends_within(secrets: Secrets, relative: str, name: str) -> bool:
    """Whether a value that begins further above ends in the last part of a path.

    Args:
        secrets: The known values.
        relative: The path.
        name: Its last part.
    """
    path = os.fsencode(relative)
    begins = len(path) - len(os.fsencode(name))
    return any(start < begins < end for start, end, _ in secrets.spans(path))


def free_name(masked: str, taken: Collection[str]) -> str:
    """A name for a file, without the mask.

    Args:
        masked: Its name in which something was masked.
        taken: Names that others have.
    """
    path = PurePosixPath(masked.replace(MASK, NAME))
    if len(os.fsencode(path.name)) > _LONGEST:
        path = PurePosixPath(NAME)
    new, number = path.name, 2
    while new in taken:
        new, number = f"{path.stem}-{number}{path.suffix}", number + 1
    return new
