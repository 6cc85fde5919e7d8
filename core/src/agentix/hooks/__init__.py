"""Lifecycle hooks: what a run tells every plugin that wants to know."""

from agentix.hooks.dispatcher import Hooks
from agentix.hooks.specs import hookimpl, hookspec

__all__ = ["Hooks", "hookimpl", "hookspec"]
