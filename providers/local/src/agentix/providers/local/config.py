"""The options of the provider `local`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

_OWN = ("agentix", "dev", "proc", "sys")


class LocalConfig(BaseModel):
    """What `--provider-opt` takes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    images: Literal["accept", "refuse"] = "accept"
    """Whether the host's tools may stand in for an image that a task names."""
    share_host_network: bool = False
    """Give sandboxes that ask for the network the host's own, loopback included, instead of one of their own."""
    storage_mb: Annotated[int, Field(gt=0)] = 2048
    """Room for files in a sandbox that names no storage, in MiB. Files live in memory."""
    pids: Annotated[int, Field(gt=0)] = 4096
    """Processes and threads in a sandbox that names no limit."""
    show: tuple[Path, ...] = ()
    """Further directories of the host to show read-only at their own path, such as `/opt/node`."""
    bubblewrap: Path | None = None
    """The `bwrap` to use; the system's by default, else the one that came with this package."""
    uid_base: Annotated[int, Field(ge=65_536, le=0x7FFE_0000)] = 0x7000_0000
    """First host uid of the ranges that sandboxes get where agentix runs as root; 65536 uids each."""

    @field_validator("show")
    @classmethod
    def _can_be_shown(cls, paths: tuple[Path, ...]) -> tuple[Path, ...]:
        for path in paths:
            if not path.is_absolute() or ".." in path.parts:
                raise ValueError(f"{path} is not an absolute path")
            if len(path.parts) < 2 or path.parts[1] in _OWN:
                raise ValueError(f"{path} would cover what every sandbox has of its own")
            if not os.path.lexists(path):
                raise ValueError(f"{path} does not exist")
        return paths
