"""The sandbox provider `inline`: plain processes of this user, without isolation."""

from agentix.providers.inline.provider import InlineProvider

__all__ = ["InlineProvider"]
