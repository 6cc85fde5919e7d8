"""A declared model: where it is, how it is called, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Price:
    """US dollars for a million tokens."""

    input: float | None = None
    output: float | None = None
    cached: float | None = None


@dataclass(frozen=True, kw_only=True)
class LLM:
    """A model without its key; whoever calls it asks for the key when it is needed."""

    name: str
    model: str
    api: str | None = None
    """The wire format: `anthropic`, `openai`, …"""
    base_url: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Handed on to the agent."""
    price: Price | None = None
