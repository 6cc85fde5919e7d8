"""Secrets, and taking them out of what others get to see."""

from agentix.redaction.secrets import MASK, Secrets

__all__ = ["MASK", "Secrets"]
