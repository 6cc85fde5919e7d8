"""Where a server starts. In a base runtime this module's pyc holds all that the server and a command need.

Finding and reading one file after another would take a third of the time that a sandbox needs to start.
"""

from agentix.runtime import execution as execution
from agentix.runtime.server import main

__all__ = ["main"]
