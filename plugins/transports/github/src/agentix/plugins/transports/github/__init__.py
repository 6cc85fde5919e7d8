"""The transport `github`: commits what is to be published on a branch of a git repository, and pushes it."""

from agentix.plugins.transports.github.inputs import GithubInputs
from agentix.plugins.transports.github.transport import Github

__all__ = ["Github", "GithubInputs"]
