"""How long each phase of a trial may take and how much an agent may spend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Phase = Literal["create", "setup", "agent", "collect", "score", "teardown"]

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
PositiveInt = Annotated[int, Field(gt=0)]


class Limits(BaseModel):
    """What one attempt may use. `None` means no limit; zero and negative values are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    create_s: Positive | None = 600.0
    """Seconds to create a sandbox and reach its runtime."""
    setup_s: Positive | None = 600.0
    """Seconds for the dataset's `setup` and the agent's `prepare`, each."""
    agent_s: Positive | None = None
    """Seconds for the agent."""
    collect_s: Positive | None = 300.0
    """Seconds to capture the patch and to collect artifacts, each."""
    score_s: Positive | None = 600.0
    """Seconds for the scorer."""
    teardown_s: Positive = 30.0
    """Seconds to delete a sandbox; it cannot be unlimited."""
    max_tool_calls: PositiveInt | None = None
    max_turns: PositiveInt | None = None
    max_tokens: PositiveInt | None = None
    max_cost_usd: Positive | None = None

    def seconds(self, phase: Phase) -> float | None:
        """The limit of a phase in seconds."""
        value: float | None = getattr(self, f"{phase}_s")
        return value

    def merged(self, other: Limits) -> Limits:
        """These limits with every value that `other` was given explicitly."""
        return self.model_copy(update={name: getattr(other, name) for name in other.model_fields_set})


@dataclass(frozen=True, kw_only=True)
class TimeoutRule:
    """How a run changes a task's own timeout: `min(override or value, maximum) × multiplier`.

    `None` stands for no limit in `value` and for "not given" in the rule.
    """

    override: float | None = None
    maximum: float | None = None
    multiplier: float = 1.0

    def apply(self, value: float | None) -> float | None:
        """The timeout in seconds that this run uses for a task that asks for `value` seconds."""
        chosen = value if self.override is None else self.override
        if self.maximum is not None:
            chosen = self.maximum if chosen is None else min(chosen, self.maximum)
        return None if chosen is None else chosen * self.multiplier
