"""Where the agent `command` keeps things in a sandbox, outside the working directory."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field


def _root() -> str:
    return f"/tmp/agentix-agent-{secrets.token_hex(8)}"  # noqa: S108 - in the sandbox, with a random name


@dataclass(frozen=True, kw_only=True)
class Places:
    """The directory of one run and what lies in it."""

    root: str = field(default_factory=_root)

    @property
    def instruction(self) -> str:
        """The task."""
        return f"{self.root}/instruction.md"

    @property
    def script(self) -> str:
        """The user's script."""
        return f"{self.root}/script"

    @property
    def trajectory(self) -> str:
        """Where the program may leave its trajectory."""
        return f"{self.root}/trajectory.json"
