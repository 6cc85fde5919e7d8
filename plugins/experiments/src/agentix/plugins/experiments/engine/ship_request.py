"""What the user asked `agentix ship` for."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class ShipRequest:
    """One call."""

    run: Path
    """The run's directory."""
    file: Path
    commands: Path | None = None
    """Where commands are taken from instead of the file."""
    dry_run: bool = False
    json: bool = False
    verbose: bool = False

    @property
    def again(self) -> str:
        """The command line that does it again."""
        words = ["agentix", "ship", str(self.run), str(self.file)]
        words += [] if self.commands is None else ["--commands", str(self.commands)]
        words += ["--dry-run"] if self.dry_run else []
        return shlex.join(words)
