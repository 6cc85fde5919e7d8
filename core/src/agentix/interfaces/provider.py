"""The contract of a sandbox provider: creates sandboxes, opens a stream to the runtime in one, deletes them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from anyio.abc import ByteStream

from agentix.models import Capability, RuntimeMount, SandboxConfig, SandboxInfo

if TYPE_CHECKING:
    from agentix.sandbox import Sandbox


@runtime_checkable
class Prefetches(Protocol):
    """A provider that can get an image before a sandbox needs it."""

    async def prefetch(self, config: SandboxConfig) -> None:
        """Pull or build what sandboxes of this config need, once for all who ask at the same time.

        Raises:
            EnvFailed: The image cannot be had or built; so will say `create`.
            HostError: The machine, the engine or a registry failed.
        """
        ...


@runtime_checkable
class SandboxProvider(Protocol):
    """Four methods, and `session`, which `agentix.sandbox.BaseProvider` builds on them.

    Commands, files, limits on output and killing process trees are none of a provider's business: the
    runtime does them, the same everywhere.
    """

    name: str

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it can do beyond the least; an attribute of the class will do."""
        ...

    async def create(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
        """Create a sandbox with the runtime mounted at `/agentix/runtime` and its server started.

        A call that fails or is cancelled leaves nothing behind.

        Raises:
            Unsupported: The config asks for something that this provider cannot do.
            EnvFailed: The image cannot be had or built, or does not start.
            HostError: The machine or the engine failed.
        """
        ...

    async def dial(self, sandbox_id: str) -> ByteStream:
        """Open a fresh duplex stream to the runtime's server.

        Raises:
            SandboxGone: There is no such sandbox any more.
        """
        ...

    async def delete(self, sandbox_id: str) -> None:
        """Delete a sandbox and everything in it; returns when it is gone. Deleting twice is no error.

        Raises:
            HostError: It could not be deleted.
        """
        ...

    async def list(self, labels: Mapping[str, str]) -> list[SandboxInfo]:
        """The existing sandboxes that carry all of these labels, whoever made them."""
        ...

    def session(self, config: SandboxConfig) -> AbstractAsyncContextManager[Sandbox]:
        """A sandbox that exists for as long as the context is open."""
        ...
