"""Trajectories in ATIF, the agent trajectory interchange format: recording, reading, checking, counting."""

from agentix.trajectory.models import (
    SCHEMA_VERSION,
    AgentInfo,
    FinalMetrics,
    Header,
    Metrics,
    Observation,
    ObservationResult,
    Step,
    ToolCall,
)
from agentix.trajectory.reader import (
    TrajectorySummary,
    check_trajectory,
    iter_steps,
    read_trajectory,
    summarize_trajectory,
)
from agentix.trajectory.recorder import Recorder, recover_trajectory
from agentix.trajectory.usage import usage_of

__all__ = [
    "SCHEMA_VERSION",
    "AgentInfo",
    "FinalMetrics",
    "Header",
    "Metrics",
    "Observation",
    "ObservationResult",
    "Recorder",
    "Step",
    "ToolCall",
    "TrajectorySummary",
    "check_trajectory",
    "iter_steps",
    "read_trajectory",
    "recover_trajectory",
    "summarize_trajectory",
    "usage_of",
]
