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
    HasSkills,
    NeedsMoreSandboxes,
    Scoring,
)
from agentix.interfaces.flow import Earlier, Flow
from agentix.interfaces.images import KeepsImages, KeptImage, PrunedImages
from agentix.interfaces.provider import Prefetches, ReachesServices, SandboxProvider, SwitchesNetwork
from agentix.interfaces.step import ChecksAhead, Executes, Publishes, Redacts, Reports, Step, StepOutcome
from agentix.interfaces.step_context import Probe, Scope, StepContext
from agentix.interfaces.transport import Receipt, Transport
from agentix.interfaces.trial_work import AgentUse, KeptAnswer, TrialWork

__all__ = [
    "Agent",
    "AgentUse",
    "Answer",
    "ChecksAhead",
    "ChoosesAnswer",
    "ChoosesScoring",
    "ConfiguresSandbox",
    "Dataset",
    "Deterministic",
    "Drives",
    "Earlier",
    "Executes",
    "Flow",
    "HasArtifacts",
    "HasContentHash",
    "HasInstruction",
    "HasLimits",
    "HasMcpServers",
    "HasReference",
    "HasSkills",
    "HasVersion",
    "KeepsImages",
    "KeptAnswer",
    "KeptImage",
    "NeedsMoreSandboxes",
    "Prefetches",
    "Prepares",
    "Probe",
    "PrunedImages",
    "Publishes",
    "ReachesServices",
    "Receipt",
    "Redacts",
    "Reports",
    "RolloutContext",
    "SandboxProvider",
    "Scope",
    "Scoring",
    "Signal",
    "Step",
    "StepContext",
    "StepOutcome",
    "SwitchesNetwork",
    "Transport",
    "TrialWork",
]
