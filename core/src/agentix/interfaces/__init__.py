"""The five contracts of agentix, one file each, and the flow that a dataset may drive itself."""

from agentix.interfaces.agent import Agent, Deterministic, HasVersion, Prepares, RolloutContext, Signal
from agentix.interfaces.dataset import (
    Answer,
    ChoosesAnswer,
    ChoosesScoring,
    ConfiguresSandbox,
    Dataset,
    Drives,
    HasArtifacts,
    HasContentHash,
    HasInstruction,
    HasLimits,
    HasMcpServers,
    HasReference,
    Scoring,
)
from agentix.interfaces.flow import Flow
from agentix.interfaces.provider import SandboxProvider
from agentix.interfaces.step import Scope, Step, StepContext, StepOutcome
from agentix.interfaces.transport import Receipt, Transport

__all__ = [
    "Agent",
    "Answer",
    "ChoosesAnswer",
    "ChoosesScoring",
    "ConfiguresSandbox",
    "Dataset",
    "Deterministic",
    "Drives",
    "Flow",
    "HasArtifacts",
    "HasContentHash",
    "HasInstruction",
    "HasLimits",
    "HasMcpServers",
    "HasReference",
    "HasVersion",
    "Prepares",
    "Receipt",
    "RolloutContext",
    "SandboxProvider",
    "Scope",
    "Scoring",
    "Signal",
    "Step",
    "StepContext",
    "StepOutcome",
    "Transport",
]
