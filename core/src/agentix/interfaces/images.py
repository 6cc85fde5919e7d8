"""What a provider may have that keeps images between runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, kw_only=True)
class KeptImage:
    """An image that was made for a task and is still there."""

    name: str
    id: str
    size: int
    """Bytes, those that it shares with other images included."""
    used_at: float
    """When it was made or last asked for, in seconds since the epoch."""
    origin: str = ""
    """What it was made from, for people."""


@dataclass(frozen=True, kw_only=True)
class PrunedImages:
    """What was removed, or would be."""

    removed: tuple[str, ...]
    kept: tuple[str, ...] = ()
    """What is as old and in use."""
    size: int = 0
    """Bytes that became free at most: images share what they are made of."""


@runtime_checkable
class KeepsImages(Protocol):
    """A provider whose engine keeps the images that were built for tasks."""

    async def images(self) -> Sequence[KeptImage]:
        """The images that were built for tasks, whoever built them, those used last first.

        Raises:
            HostError: The engine cannot tell.
        """
        ...

    async def prune_images(self, *, unused_for_s: float, dry_run: bool) -> PrunedImages:
        """Remove images that were built for tasks, and nothing else.

        Args:
            unused_for_s: Seconds in which nobody has asked for them.
            dry_run: Only say what would be removed.

        Raises:
            HostError: The engine cannot do it.
        """
        ...
