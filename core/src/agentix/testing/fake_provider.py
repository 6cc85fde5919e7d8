"""A provider of real sandboxes without isolation, which fails where it is told to."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from agentix.errors import SandboxGone
from agentix.sandbox import HostProcessProvider
from agentix.testing.scripts import Action, Script

if TYPE_CHECKING:
    from anyio.abc import ByteStream

    from agentix.models import RuntimeMount, SandboxConfig, SandboxInfo
    from agentix.sandbox import Sandbox


class FakeProvider(HostProcessProvider):
    """Sandboxes that run commands when asked to, and cost nothing as long as they are not.

    They are plain processes of this user, for tests only. What a script keeps `delete` from deleting is deleted
    by `aclose`.

    Args:
        on: What happens at `create`, `dial`, `delete` and `list`.
    """

    name = "fake"

    def __init__(self, *, on: Mapping[str, Action] | None = None) -> None:
        super().__init__()
        self.made = 0
        """How many sandboxes were asked for."""
        self._script = Script(on, stages=frozenset({"create", "dial", "delete", "list"}))

    @property
    def live(self) -> set[str]:
        """The ids of the sandboxes that exist."""
        return set(self._sandboxes)

    async def create(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
        """Do what is scripted, then make a sandbox."""
        self.made += 1
        await self._script.run("create", f"sandbox-{self.made}")
        return await super().create(config, runtime)

    async def dial(self, sandbox_id: str) -> ByteStream:
        """Do what is scripted, then start the server."""
        await self._script.run("dial", sandbox_id)
        return await super().dial(sandbox_id)

    async def delete(self, sandbox_id: str) -> None:
        """Do what is scripted, then delete."""
        await self._script.run("delete", sandbox_id)
        await super().delete(sandbox_id)

    async def list(self, labels: Mapping[str, str]) -> list[SandboxInfo]:
        """Do what is scripted, then list."""
        await self._script.run("list", "")
        return await super().list(labels)

    async def lose(self, sandbox: Sandbox) -> None:
        """End a sandbox's runtime without deleting the sandbox; returns when the host has noticed."""
        await sandbox.connect()
        process = self._sandboxes[sandbox.id].process
        assert process is not None
        process.kill()
        with suppress(SandboxGone):
            while True:
                await sandbox.exists("/")

    async def aclose(self) -> None:
        """Delete what is left, whatever is scripted."""
        for sandbox_id in list(self._sandboxes):
            await super().delete(sandbox_id)
