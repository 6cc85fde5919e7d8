"""One planned attempt of an agent at an instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A pure function of what was planned; running it gives a `Rollout`."""

    trial_id: str
    instance: Mapping[str, Any]
    index: int = 1
    """From 1, among the trials of the same instance."""
    model: str | None = None
    position: int = 0
    """From 0, among all planned trials."""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def instance_id(self) -> str:
        """The id of the instance."""
        return str(self.instance["instance_id"])
