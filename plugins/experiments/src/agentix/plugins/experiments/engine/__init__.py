"""Runs an experiment: what is missing of it, in two widths, with a record that survives everything."""

from agentix.plugins.experiments.engine.request import RunRequest
from agentix.plugins.experiments.engine.run import run_experiment
from agentix.plugins.experiments.engine.ship import ship_run
from agentix.plugins.experiments.engine.ship_request import ShipRequest

__all__ = ["RunRequest", "ShipRequest", "run_experiment", "ship_run"]
