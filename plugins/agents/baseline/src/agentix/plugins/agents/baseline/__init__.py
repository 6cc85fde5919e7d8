"""Four agents that need nothing else: `oracle`, `nop`, `command` and `python`."""

from agentix.plugins.agents.baseline.command import CommandAgent
from agentix.plugins.agents.baseline.config import CommandConfig
from agentix.plugins.agents.baseline.nop import NopAgent
from agentix.plugins.agents.baseline.oracle import OracleAgent
from agentix.plugins.agents.baseline.python import PythonAgent, PythonConfig

__all__ = [
    "CommandAgent",
    "CommandConfig",
    "NopAgent",
    "OracleAgent",
    "PythonAgent",
    "PythonConfig",
]
