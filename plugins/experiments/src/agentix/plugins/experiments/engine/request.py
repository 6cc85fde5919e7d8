"""What the user asked `agentix run` for."""

from __future__ import annotations

import json
import shlex
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

    def resume_with(self, run_id: str) -> str:
        """The command line that goes on with the run: with every option that decides what is run, and with what."""
        words = ["agentix", "run", str(self.file), "--id", run_id]
        if self.out != Path("runs"):
            words += ["--out", str(self.out)]
        for option in ("executor", "provider"):
            value = getattr(self, option)
            words += [] if value is None else [f"--{option}", value]
        for key, value in self.provider_options.items():
            words += ["--provider-opt", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
        words += [] if self.commands is None else ["--commands", str(self.commands)]
        for pattern in self.cases:
            words += ["--case", pattern]
        words += [] if self.limit is None else ["--limit", str(self.limit)]
        return shlex.join(words)
