"""Tool servers that an agent is offered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class McpServer:
    """A server of the Model Context Protocol, as seen from inside the sandbox.

    See https://modelcontextprotocol.io/specification for the transports.
    """

    name: str
    transport: Literal["stdio", "sse", "streamable-http"]
    url: str | None = None
    """Where it listens, for all transports but stdio."""
    command: str | None = None
    """The program to start inside the sandbox, for stdio."""
    args: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it, without what does not belong to its transport."""
        if self.transport == "stdio":
            return {"name": self.name, "transport": "stdio", "command": self.command, "args": list(self.args)}
        return {"name": self.name, "transport": self.transport, "url": self.url, "headers": dict(self.headers)}
