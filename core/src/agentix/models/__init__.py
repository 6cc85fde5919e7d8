"""Frozen data that the parts of agentix hand to each other."""

from agentix.models.case import Case
from agentix.models.event import Event, EventKind
from agentix.models.execution import ExecResult, OutputChunk
from agentix.models.failure import Boundary, Ended, Failure, FailureCode
from agentix.models.limits import Limits, Phase, TimeoutRule
from agentix.models.llm import LLM, Price
from agentix.models.mcp import McpServer
from agentix.models.naming import slug, trial_id
from agentix.models.rollout import AgentResult, Rollout
from agentix.models.sandbox import (
    Capability,
    Compose,
    ImageBuild,
    Mount,
    Network,
    RuntimeMount,
    SandboxConfig,
    SandboxInfo,
)
from agentix.models.trial import Trial
from agentix.models.usage import Usage

__all__ = [
    "LLM",
    "AgentResult",
    "Boundary",
    "Capability",
    "Case",
    "Compose",
    "Ended",
    "Event",
    "EventKind",
    "ExecResult",
    "Failure",
    "FailureCode",
    "ImageBuild",
    "Limits",
    "McpServer",
    "Mount",
    "Network",
    "OutputChunk",
    "Phase",
    "Price",
    "Rollout",
    "RuntimeMount",
    "SandboxConfig",
    "SandboxInfo",
    "TimeoutRule",
    "Trial",
    "Usage",
    "slug",
    "trial_id",
]
