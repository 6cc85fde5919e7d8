"""Publishes to the Hugging Face hub with its own command line, `hf`."""

from agentix.plugins.transports.hf.inputs import HfInputs
from agentix.plugins.transports.hf.transport import HfTransport

__all__ = ["HfInputs", "HfTransport"]
