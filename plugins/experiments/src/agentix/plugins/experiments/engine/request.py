"""What the user asked `agentix run` for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentix.api import FailureCode


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """One call."""

    file: Path
    out: Path = Path("runs")
    run_id: str | None = None
    executor: str | None = None
    """Runs the trials instead of what the file says: a step, a configured command, `local` or `auto`."""
    provider: str | None = None
    """Makes the sandboxes instead of what the file says."""
    provider_options: Mapping[str, object] = field(default_factory=dict)
    commands: Path | None = None
    """Where commands are taken from instead of the file."""
    n_concurrent: int | None = None
    """How many trials run at once, instead of what the file says."""
    cases: tuple[str, ...] = ()
    """Globs; only the cases that one of them matches."""
    limit: int | None = None
    """Only the first so many cases of what is left."""
    regate: bool = False
    retry: frozenset[FailureCode] = frozenset()
    force: bool = False
    dry_run: bool = False
    max_cost_usd: float | None = None
    stop_after: int | None = 5
    fail_under: float | None = None
    allow_failures: bool = False
    json: bool = False
    quiet: bool = False
    verbose: bool = False
