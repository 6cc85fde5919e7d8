"""The sandbox provider `local`: bubblewrap on this machine."""

from agentix.providers.local.config import LocalConfig
from agentix.providers.local.provider import LocalProvider

__all__ = ["LocalConfig", "LocalProvider"]
