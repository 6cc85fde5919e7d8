"""How much a captured patch may cost."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

MIB = 1024 * 1024

Count = Annotated[int, Field(gt=0)]


class PatchLimits(BaseModel):
    """Caps on what is read out of a sandbox. What trips one is named, never silently left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_entries: Count = 500_000
    """Files in the tree; more are a `PatchError`."""
    max_bytes: Count = 8192 * MIB
    """Bytes of all files in the tree, and of all contents fetched at once; more are a `PatchError`."""
    max_file_bytes: Count = 64 * MIB
    """Bytes of one file; a change to a larger one is left out of the patch and listed."""
    max_patch_bytes: Count = 256 * MIB
    """Bytes of the patch; a larger one is a `PatchError`."""
