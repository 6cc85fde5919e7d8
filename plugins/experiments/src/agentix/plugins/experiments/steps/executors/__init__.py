"""Steps that run a trial: natively, or by a configured command."""

from agentix.plugins.experiments.steps.executors.answer import Answer, read_answer
from agentix.plugins.experiments.steps.executors.command import run_command_executor
from agentix.plugins.experiments.steps.executors.rollout import LocalStep, RolloutStep

__all__ = ["Answer", "LocalStep", "RolloutStep", "read_answer", "run_command_executor"]
