"""The typed result of one agent attempting one instance once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentix.models.failure import Ended, Failure
from agentix.models.usage import Usage


@dataclass(frozen=True)
class AgentResult:
    """What an agent hands back. Left at its default, a field is unknown, not empty."""

    patch: str = ""
    """The agent's own patch; where it is empty, what changed in the working directory is the answer."""
    exit_code: int | None = None
    trajectory: Mapping[str, Any] | None = None
    """In the ATIF format."""
    usage: Usage | None = None
    ended: Ended | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    """Anything more. The end of `stderr_tail`, else of `stdout_tail`, is quoted where the agent ended with an error; a
    text whose key ends with `_note` is a note of the result."""


@dataclass(frozen=True)
class Rollout:
    """One attempt, whatever happened in it."""

    instance_id: str
    patch: str = ""
    """Any bytes, as UTF-8 with surrogateescape."""
    score: dict[str, Any] | None = None
    agent_exit: int | None = None
    error: str | None = None
    skipped: str | None = None
    """`setup_failed` or `empty_patch`, where the rollout was not scored for that reason."""
    duration_s: float = 0.0
    trial_id: str = ""
    index: int = 1
    """Which of the trials of this instance it is, from 1."""
    attempts: int = 1
    failure: Failure | None = None
    """Set only where there is no reward."""
    ended: Ended | None = None
    usage: Usage | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds spent in create, setup, agent, collect, score and teardown."""
    trajectory: Mapping[str, Any] | None = None
    image_digest: str | None = None
    agent_version: str | None = None
    notes: tuple[str, ...] = ()
    """What a reader of the result should know, such as a teardown that failed after a good score."""
    unreleased: tuple[str, ...] = ()
    """Ids of sandboxes that could not be deleted."""
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def resolved(self) -> bool:
        """Whether the scorer said that the instance is solved."""
        return bool(self.score and self.score.get("resolved"))

    @property
    def reward(self) -> float | None:
        """The finite reward; `None` where the trial was not measured."""
        if self.skipped == "empty_patch" and self.failure is None:
            return 0.0
        value = (self.score or {}).get("reward")
        return value if isinstance(value, int | float) and math.isfinite(value) else None
