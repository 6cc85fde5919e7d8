"""Where a server starts. In a base runtime one file holds all that the server and a command need, in place of this one.

Finding and reading one module after another would take a third of the time that a sandbox needs to start.
"""

from agentix.runtime import execution as execution
from agentix.runtime.server import main

__all__ = ["main"]
