"""Steps: what a name in the file stands for, whether its inputs are right, and running it."""

from agentix.plugins.experiments.steps.checking import Checked, check_file, plugin_problem
from agentix.plugins.experiments.steps.choosing import choose_executor
from agentix.plugins.experiments.steps.command_step import CommandLost, TryLater, run_command_step
from agentix.plugins.experiments.steps.fingerprint import digest, file_hash, file_hashes, fingerprint_parts
from agentix.plugins.experiments.steps.foreseeing import foreseen
from agentix.plugins.experiments.steps.inputs import StepProblem, StepRefused
from agentix.plugins.experiments.steps.pipeline import ResolvedPipeline, resolve_pipeline
from agentix.plugins.experiments.steps.resolved import ResolvedStep
from agentix.plugins.experiments.steps.resolving import resolve_step
from agentix.plugins.experiments.steps.running import (
    Reaction,
    StepResult,
    Verdict,
    concluded,
    exponential,
    failed,
    run_step,
)

__all__ = [
    "Checked",
    "CommandLost",
    "Reaction",
    "ResolvedPipeline",
    "ResolvedStep",
    "StepProblem",
    "StepRefused",
    "StepResult",
    "TryLater",
    "Verdict",
    "check_file",
    "choose_executor",
    "concluded",
    "digest",
    "exponential",
    "failed",
    "file_hash",
    "file_hashes",
    "fingerprint_parts",
    "foreseen",
    "plugin_problem",
    "resolve_pipeline",
    "resolve_step",
    "run_command_step",
    "run_step",
]
