"""What the user asked `agentix rollout` for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentix.cli.select import Selection
from agentix.models import FailureCode, Limits, Phase, TimeoutRule


@dataclass(frozen=True, kw_only=True)
class PluginRequest:
    """A plugin by name, with options."""

    ref: str
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RolloutRequest:
    """One call, checked as far as it can be without loading anything."""

    dataset: PluginRequest
    agent: PluginRequest
    provider: PluginRequest
    model: str | None = None
    bundle: str | None = None
    out: Path = Path("runs")
    run_id: str | None = None
    force: bool = False
    retry: frozenset[FailureCode] = frozenset()
    n_concurrent: int = 8
    prepare_ahead: int | None = None
    """How many sandboxes are made ready before they are needed; by the provider's own measure where it is not given."""
    trials: int = 1
    trials_explicit: bool = False
    """Whether the number was typed; otherwise a deterministic agent runs once."""
    max_attempts: int = 1
    limits: Limits = field(default_factory=Limits)
    timeouts: Mapping[Phase, TimeoutRule] = field(default_factory=dict)
    selection: Selection = field(default_factory=Selection)
    max_cost_usd: float | None = None
    stop_after: int | None = 5
    fail_under: float | None = None
    allow_failures: bool = False
    dry_run: bool = False
    json: bool = False
    verbose: bool = False
    quiet: bool = False
