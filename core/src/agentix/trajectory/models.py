"""ATIF, the agent trajectory interchange format, as typed data.

The format is Harbor's (versions 1.0 to 1.x). It grows, and keys that are not known here are kept, so these
models do not forbid any.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

SCHEMA_VERSION = "ATIF-v1.4"

Source = Literal["system", "user", "agent"]
Content = str | list[dict[str, Any]]
"""Text, or the parts of a message with more than text."""
Tokens = Annotated[int, Field(ge=0)]
Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]

_KEEP = ConfigDict(frozen=True, extra="allow", strict=True)


class ToolCall(BaseModel):
    """One call of a tool by the agent."""

    model_config = _KEEP

    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]


class ObservationResult(BaseModel):
    """What one call, or something that was no call, gave back."""

    model_config = _KEEP

    source_call_id: str | None = None
    content: Content | None = None


class Observation(BaseModel):
    """What the agent saw after a step."""

    model_config = _KEEP

    results: list[ObservationResult] = Field(default_factory=list)


class Metrics(BaseModel):
    """What one turn cost. `cached_tokens` are contained in `prompt_tokens`."""

    model_config = _KEEP

    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None
    cached_tokens: Tokens | None = None
    cost_usd: Dollars | None = None
    extra: dict[str, Any] | None = None


class Step(BaseModel):
    """A message, or a turn of the agent with its tool calls and what they gave back."""

    model_config = _KEEP

    step_id: Annotated[int, Field(ge=1)]
    source: Source
    message: Content
    timestamp: str | None = None
    model_name: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.source != "agent":
            for name in ("model_name", "reasoning_content", "tool_calls", "metrics"):
                if getattr(self, name) is not None:
                    raise ValueError(f"a step of the {self.source} has no {name}")
        calls = [call.tool_call_id for call in self.tool_calls or ()]
        if len(set(calls)) < len(calls):
            raise ValueError("two tool calls of one step have the same tool_call_id")
        for result in self.observation.results if self.observation else ():
            if result.source_call_id is not None and result.source_call_id not in calls:
                raise ValueError(f"source_call_id {result.source_call_id!r} is no tool call of this step")
        return self


class FinalMetrics(BaseModel):
    """Sums over all steps; an absent one is unknown."""

    model_config = _KEEP

    total_prompt_tokens: Tokens | None = None
    total_completion_tokens: Tokens | None = None
    total_cached_tokens: Tokens | None = None
    total_cost_usd: Dollars | None = None
    total_steps: Tokens | None = None
    extra: dict[str, Any] | None = None


class AgentInfo(BaseModel):
    """Who acted."""

    model_config = _KEEP

    name: str
    version: str | None = None
    model_name: str | None = None


class Header(BaseModel):
    """Everything of a trajectory but its steps."""

    model_config = _KEEP

    schema_version: Annotated[str, StringConstraints(pattern=r"^ATIF-v1\.\d+$")]
    session_id: str | None = None
    agent: AgentInfo
    final_metrics: FinalMetrics | None = None
