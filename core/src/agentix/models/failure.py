"""Why a trial has no reward: the failure codes and the record of one failure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Boundary = Literal["sandbox", "dataset", "agent", "scorer", "step", "host"]
"""The part of a trial that a failure is attributed to, exactly once."""

Ended = Literal[
    "completed",
    "timeout",
    "max_tool_calls",
    "max_tokens",
    "max_cost_usd",
    "max_turns",
    "agent_error",
]
"""What ended the agent, whether or not its work was rewarded."""


class FailureCode(StrEnum):
    """Whose failure it was. Finer detail goes into `Failure.detail`, never into new codes."""

    AGENT_TIMEOUT = "AGENT_TIMEOUT"
    AGENT_FAILED = "AGENT_FAILED"
    AGENT_LIMIT = "AGENT_LIMIT"
    ENV_FAILED = "ENV_FAILED"
    HOST_ERROR = "HOST_ERROR"
    VERIFIER_ERROR = "VERIFIER_ERROR"
    REDACT_FAILED = "REDACT_FAILED"
    STEP_FAILED = "STEP_FAILED"
    CANCELLED = "CANCELLED"

    @property
    def is_agents(self) -> bool:
        """Whether a trial that failed with this code counts in the denominator of every rate."""
        return self.name.startswith("AGENT_")

    @property
    def is_retried(self) -> bool:
        """Whether another attempt could plausibly end differently."""
        return self in (FailureCode.HOST_ERROR, FailureCode.VERIFIER_ERROR)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One failure, attributed to one boundary."""

    code: FailureCode
    message: str
    detail: str | None = None
    """A short fixed word such as `oom`, `image_pull`, `agent_setup`, `patch_capture`."""
    boundary: Boundary = "host"
    plugin: str | None = None
    """The plugin whose code failed, as `name` or `name (distribution version)`."""
    traceback: str | None = None
