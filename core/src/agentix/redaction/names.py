"""Secrets with slashes in them, which paths may spell."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentix.redaction.secrets import Secrets


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
