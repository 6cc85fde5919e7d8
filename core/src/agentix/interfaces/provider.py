"""The contract of a sandbox provider: creates sandboxes, opens a stream to the runtime in one, deletes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from anyio.abc import ByteStream

from agentix.models import Capability, ExecResult, Network, RuntimeMount, SandboxConfig, SandboxInfo

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
class SwitchesNetwork(Protocol):
    """A provider that can change what a running sandbox may reach; it declares `network_switch`."""

    async def set_network(self, sandbox_id: str, network: Network, *, allowed_hosts: Sequence[str] = ()) -> None:
        """Give a sandbox another network, for what runs in it now and later.

        Raises:
            Unsupported: This sandbox cannot have it.
            HostError: The engine failed.
        """
        ...


@runtime_checkable
class ReachesServices(Protocol):
    """A provider that can run commands and read files in the services beside a sandbox."""

    async def service_exec(
        self,
        sandbox_id: str,
        service: str,
        command: str | Sequence[str],
        *,
        user: str | None,
        timeout_s: float | None,
        output_limit: int,
    ) -> ExecResult:
        """Run a command in a service; at its limit it is left behind.

        Raises:
            EnvFailed: There is no such service, or it does not run.
            HostError: The engine failed.
        """
        ...

    async def service_download(self, sandbox_id: str, service: str, remote: str, local: Path) -> Sequence[str]:
        """Copy a file or a tree out of a service.

        Returns:
            What was left out, and why.

        Raises:
            FileNotFoundError: There is no such path.
            EnvFailed: There is no such service.
            HostError: The engine failed.
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
