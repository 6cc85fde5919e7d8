"""Runs an experiment: what is missing of it, in two widths, with a record that survives everything."""

from agentix.plugins.experiments.engine.request import RunRequest
from agentix.plugins.experiments.engine.run import run_experiment

__all__ = ["RunRequest", "run_experiment"]
