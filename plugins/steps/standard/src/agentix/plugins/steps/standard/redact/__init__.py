"""The step `redact`: makes what may be published of a trial out of what the trial left."""

from agentix.plugins.steps.standard.redact.inputs import RedactInputs
from agentix.plugins.steps.standard.redact.step import Redact

__all__ = ["Redact", "RedactInputs"]
