"""The step `report`: what happened in a run, as one file."""

from agentix.plugins.steps.standard.report.step import Report, ReportInputs

__all__ = ["Report", "ReportInputs"]
