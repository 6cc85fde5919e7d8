"""The experiment file: what it may say, read strictly, with all that is wrong told at once."""

from agentix.plugins.experiments.documents.files import plain
from agentix.plugins.experiments.documents.loading import load, problem, read
from agentix.plugins.experiments.documents.models import (
    AgentSpec,
    CaseSpec,
    Commands,
    CommandSpec,
    Experiment,
    LimitsSpec,
    LLMSpec,
    Matrix,
    Pipeline,
    PriceSpec,
    ProviderSpec,
    StepSpec,
    Submission,
)
from agentix.plugins.experiments.documents.nodes import Place
from agentix.plugins.experiments.documents.problems import ExperimentError, Problem, nearest, with_hint

__all__ = [
    "AgentSpec",
    "CaseSpec",
    "CommandSpec",
    "Commands",
    "Experiment",
    "ExperimentError",
    "LLMSpec",
    "LimitsSpec",
    "Matrix",
    "Pipeline",
    "Place",
    "PriceSpec",
    "Problem",
    "ProviderSpec",
    "StepSpec",
    "Submission",
    "load",
    "nearest",
    "plain",
    "problem",
    "read",
    "with_hint",
]
