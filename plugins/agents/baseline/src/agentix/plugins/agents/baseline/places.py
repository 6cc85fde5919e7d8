"""Where the agent `command` keeps things in a sandbox, outside the working directory."""

from __future__ import annotations

import posixpath
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentix.api import Sandbox


@dataclass(frozen=True, kw_only=True)
class Places:
    """The directory of one run and what lies in it."""

    root: str

    @classmethod
    def of(cls, sandbox: Sandbox) -> Places:
        """A directory with a random name, where the sandbox has what is gone with it."""
        return cls(root=posixpath.join(sandbox.info.temporary, f"agentix-agent-{secrets.token_hex(8)}"))

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
