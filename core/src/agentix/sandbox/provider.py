"""The base class of providers: from create, dial and delete to a session."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import anyio

from agentix.errors import HostError, SandboxGone
from agentix.runtime import BRIDGE_ARGS
from agentix.sandbox.bundled import bundled, with_commands
from agentix.sandbox.command import environment
from agentix.sandbox.connection import Connection
from agentix.sandbox.failures import naming_exhaustion, of_the_sandbox
from agentix.sandbox.first_connection import FirstConnection
from agentix.sandbox.sandbox import Sandbox, Unreleased

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from anyio.abc import ByteStream, TaskGroup
    from pydantic import BaseModel

    from agentix.bundle import MountedBundle
    from agentix.models import Capability, RuntimeMount, SandboxConfig, SandboxInfo
    from agentix.sandbox.resuming import Resuming

_LOG = logging.getLogger("agentix.sandbox")
_REMARKS_S = 5.0
_STARTS = 3
"""How many sandboxes are made where each of them is no good."""
_DELETE_AFTER_S = (0.0, 0.2)
"""How long to wait before each try to delete a sandbox: an engine that was busy must not leave one behind."""


class _Misstarted(Exception):
    """A sandbox that has just started is no good, and another one may be."""

    def __init__(self, reason: HostError) -> None:
        super().__init__(str(reason))
        self.reason = reason
        self.unreleased: Unreleased | None = None


class BaseProvider(ABC):
    """A provider implements `create`, `dial`, `delete` and `list`; see `agentix.interfaces.SandboxProvider`."""

    name: str
    capabilities: frozenset[Capability] = frozenset()
    Config: ClassVar[type[BaseModel] | None] = None
    teardown_s: float = 30.0
    """Seconds that deleting a sandbox may take."""
    heartbeat_s: float = 10.0
    """Seconds of silence after which a runtime is asked for a sign of life."""
    missed_heartbeats: int = 6
    """How many such questions in a row may stay unanswered before the sandbox counts as gone."""
    reconnect_s: float = 0.0
    """How long a lost stream is tried to be had again through `bridge`; 0 where a sandbox ends with its stream.

    For so long a sandbox also waits for a host that is gone, before it ends all that runs in it.
    """
    connects_lazily: bool = False
    """Whether a sandbox is dialled at its first call instead of at the start of its session.

    The directory that `info.workdir` names is then empty until that call.
    """
    prepares_ahead: bool = False
    """Whether creating a sandbox takes so long that runs should have some ready before they are needed."""
    mounts: bool = True
    """Whether its sandboxes have a file system of their own, in which what `config.mounts` names is mounted.

    Where they have not, a bundle is found at its place on the host.
    """

    @abstractmethod
    async def create(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
        """Create a sandbox; a call that fails or is cancelled leaves nothing behind."""

    @abstractmethod
    async def dial(self, sandbox_id: str) -> ByteStream:
        """Open a fresh duplex stream to the runtime's server."""

    @abstractmethod
    async def delete(self, sandbox_id: str) -> None:
        """Delete a sandbox; returns when it is gone. Deleting twice is no error."""

    @abstractmethod
    async def list(self, labels: Mapping[str, str]) -> list[SandboxInfo]:
        """The existing sandboxes that carry all of these labels."""

    async def runtime(self) -> RuntimeMount:
        """The base runtime to mount."""
        from agentix.bundle import base_runtime

        return await base_runtime()

    async def explain(self, sandbox_id: str) -> SandboxGone:
        """Say why a sandbox's stream ended; override it where the engine knows more."""
        return SandboxGone(f"sandbox {sandbox_id} of provider {self.name} is gone: its runtime hung up")

    async def stalled(self, sandbox_id: str) -> SandboxGone | None:
        """Why a sandbox that does not answer never will, such as that it is paused; `None` where it may.

        Asked every `heartbeat_s` as long as it is silent.
        """
        return None

    async def bridge(self, sandbox_id: str, argv: Sequence[str]) -> ByteStream:
        """Start a program of the runtime in a sandbox that lives, and give its stdin and stdout.

        Called when the stream was lost, where `reconnect_s` is more than 0. It has to run as the server's user, and to
        be put there from outside, as engines do: the server talks to nothing that was started within.

        Args:
            sandbox_id: The sandbox.
            argv: The program, with paths as seen inside.

        Raises:
            SandboxGone: The sandbox is gone, or can never answer again; it is not tried again.
            HostError: It did not work now; it is tried again.
        """
        raise NotImplementedError(f"provider {self.name} sets reconnect_s and has no bridge")

    def misstarted(self, sandbox_id: str, greeting: Mapping[str, Any]) -> HostError | None:
        """Why a sandbox that has just started is not what it was to be, `None` where it is.

        It is deleted and another one made, three in all; then this is raised.

        Args:
            sandbox_id: The sandbox.
            greeting: What its runtime says of itself and of the place in which it finds itself: `root` is the type
                of the file system at / and which directory of it that is, where it can tell.
        """
        return None

    async def settle(self, sandbox_id: str) -> None:  # noqa: B027
        """Wait until a sandbox that was dialled is fit for use, where a provider knows what that takes.

        Raises:
            EnvFailed: It will not be.
        """

    async def remarks(self, sandbox_id: str) -> tuple[str, ...]:
        """What the reader of a result should know of a sandbox before it is deleted, such as a limit that tripped."""
        return ()

    async def aclose(self) -> None:  # noqa: B027
        """Release what the provider itself holds."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    @asynccontextmanager
    async def session(self, config: SandboxConfig) -> AsyncIterator[Sandbox]:
        """A sandbox that exists for as long as the context is open.

        The bundle that the config names is added to its mounts, and named by its digest, before `create` is called.

        What the body raises comes out as it is. A sandbox that could not be deleted is told by
        `sandbox.unreleased`, and where no sandbox was given, by a note on the error and its `unreleased` attribute.

        Raises:
            Unsupported: The config asks for something that this provider cannot do.
            BundleError: The bundle is unknown, damaged, or of another platform or Python.
            EnvFailed: The image cannot be had or built, or does not start.
            HostError: The machine or the engine failed.
        """
        environment(config.env)
        config, bundle = await bundled(config, mounts=self.mounts)
        with naming_exhaustion():
            runtime = await self.runtime()
        async with AsyncExitStack() as stack:
            yield await self._started(stack, config, bundle, runtime)

    async def _started(
        self, stack: AsyncExitStack, config: SandboxConfig, bundle: MountedBundle | None, runtime: RuntimeMount
    ) -> Sandbox:
        tried = 0
        while True:
            tried += 1
            try:
                return await stack.enter_async_context(self._opened(config, bundle, runtime))
            except _Misstarted as error:
                if tried < _STARTS and error.unreleased is None:
                    _LOG.warning("%s; another one is made", error.reason.message)
                    continue
                if error.unreleased is not None:
                    error.reason.unreleased = error.unreleased  # type: ignore[attr-defined]
                raise error.reason from None

    @asynccontextmanager
    async def _opened(
        self, config: SandboxConfig, bundle: MountedBundle | None, runtime: RuntimeMount
    ) -> AsyncIterator[Sandbox]:
        with naming_exhaustion():
            info = await self.create(config, runtime)
        error: BaseException | None = None
        sandbox: Sandbox | None = None
        given = False
        try:
            # An error from the body leaves the group first and is raised then: the group would wrap it.
            async with anyio.create_task_group() as group:
                sandbox = self._sandbox(info, config, group, bundle, runtime)
                try:
                    if not self.connects_lazily:
                        await sandbox.connect()
                        await self.settle(info.id)
                    given = True
                    yield sandbox
                except BaseException as raised:
                    error = raised
                # With it ends all that runs in the group.
                with anyio.CancelScope(shield=True):
                    if given:
                        sandbox.remarks = await self._remarks(info)
                    await sandbox.aclose()
                if sandbox.untouched:
                    # It may still be dialled for somebody who was cancelled.
                    group.cancel_scope.cancel()
        finally:
            within_s = None if sandbox is None else sandbox.teardown_s
            unreleased = await self._release(info, within_s=within_s or self.teardown_s)
            if unreleased is not None:
                if sandbox is not None:
                    sandbox.unreleased = unreleased
                if error is not None and not given:
                    error.add_note(f"sandbox {info.id} could not be deleted either: {unreleased.message}")
                    error.unreleased = unreleased  # type: ignore[attr-defined]
            if error is not None:
                raise error

    def _sandbox(
        self,
        info: SandboxInfo,
        config: SandboxConfig,
        group: TaskGroup,
        bundle: MountedBundle | None,
        runtime: RuntimeMount,
    ) -> Sandbox:
        hello = {
            "base_env": environment(with_commands(info.env, bundle, always=True)),
            "base_user": info.user,
            "env": environment(with_commands(config.env, bundle)),
            "user": config.user,
        }

        async def connect() -> Connection:
            # A sandbox that is dialled lazily is dialled under the hands of an agent, who is not to blame.
            with of_the_sandbox(self), naming_exhaustion():
                stream = await self.dial(info.id)
            connection = Connection(
                stream,
                explain=lambda: self.explain(info.id),
                stalled=lambda: self.stalled(info.id),
                resuming=self._resuming(info, runtime) if self.reconnect_s > 0 else None,
                heartbeat_s=self.heartbeat_s,
                missed=self.missed_heartbeats,
            )
            try:
                greeting = await connection.start(group, hello)
                if (reason := self.misstarted(info.id, greeting)) is not None:
                    raise reason if self.connects_lazily else _Misstarted(reason)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await connection.aclose()
                raise
            return connection

        return Sandbox(
            info,
            config,
            connect=FirstConnection(connect, group=group).get if self.connects_lazily else connect,
            capabilities=lambda: self.capabilities,
            bundle=bundle,
            shares_host=not self.mounts,
            provider=self,
        )

    def _resuming(self, info: SandboxInfo, runtime: RuntimeMount) -> Resuming:
        from agentix.sandbox.resuming import Resuming

        argv = (*runtime.argv, *BRIDGE_ARGS)
        return Resuming(lambda name: self.bridge(info.id, (*argv, name)), grace_s=self.reconnect_s)

    async def _remarks(self, info: SandboxInfo) -> tuple[str, ...]:
        with anyio.move_on_after(_REMARKS_S, shield=True):
            try:
                return tuple(await self.remarks(info.id))
            except Exception as error:
                _LOG.warning("provider %s could not say how sandbox %s fared: %s", self.name, info.id, error)
        return ()

    async def _release(self, info: SandboxInfo, *, within_s: float) -> Unreleased | None:
        message = ""
        with anyio.move_on_after(within_s, shield=True):
            for pause_s in _DELETE_AFTER_S:
                await anyio.sleep(pause_s)
                try:
                    await self.delete(info.id)
                    return None
                except Exception as error:
                    message = message or str(error) or repr(error)
        message = message or f"deleting it took more than {within_s:g} s"
        return Unreleased(id=info.id, provider=self.name, message=message)
