"""An instance as an experiment sees it: where it came from, and which bytes it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Case:
    """One resolved case. What it is does not change any more, whatever happens to its source."""

    name: str
    """What trial ids are made of: the `id` of the entry, else the last part of its path, or the instance's id."""
    label: str
    """What people and records call it: the path as it was written, or the instance's id."""
    source: str
    """`local`, `git`, `hf` or `dataset`."""
    dataset: str
    """Reference of the dataset plugin that sets it up and scores it."""
    instance: Mapping[str, Any]
    """What that dataset is given."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What that dataset is made with."""
    sha256: str | None = None
    """Hash of its content; `None` where the dataset has none for it."""
    directory: Path | None = None
    """The snapshot that is run; `None` where the instance is no directory."""
    pin: Mapping[str, str] = field(default_factory=dict)
    """What its place was resolved to: `repo`, `ref`, `commit`, `path`, …"""
