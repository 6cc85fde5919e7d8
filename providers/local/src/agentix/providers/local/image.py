"""What a sandbox takes from an image: here, from the parts of a Dockerfile that need no build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Kind = Literal["dir", "file", "link"]

WORKDIR = "/app"
"""Where commands start if no Dockerfile says otherwise."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One file, link or directory to put into a sandbox."""

    path: str
    """Absolute, inside."""
    kind: Kind
    mode: int = 0o755
    uid: int = 0
    gid: int = 0
    source: Path | None = None
    """Where a file's content lies."""
    target: str = ""
    """What a link points to."""


@dataclass(frozen=True, kw_only=True)
class Image:
    """The part of an image that is honoured."""

    name: str | None = None
    """The image that the host's tools stand in for."""
    workdir: str = WORKDIR
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    dirs: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()
