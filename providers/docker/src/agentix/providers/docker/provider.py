"""The provider `docker`: sandboxes that are containers, over the engine's HTTP API."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from anyio.abc import ByteStream

from agentix.api import (
    AgentixError,
    BaseProvider,
    Capability,
    ExecResult,
    HostError,
    KeptImage,
    Network,
    PrunedImages,
    RuntimeMount,
    SandboxConfig,
    SandboxGone,
    SandboxInfo,
    Unsupported,
    base_runtime,
)
from agentix.providers.docker import given
from agentix.providers.docker import labels as ownership
from agentix.providers.docker.attached import AttachedStream
from agentix.providers.docker.compose import Projects
from agentix.providers.docker.config import DockerConfig
from agentix.providers.docker.container import abilities, home_of, notes, refuse
from agentix.providers.docker.containers import remove_container
from agentix.providers.docker.endpoint import find_endpoint
from agentix.providers.docker.engine import Engine, EngineError
from agentix.providers.docker.failures import check_engine
from agentix.providers.docker.gone import cause_of_death, fate, what_tripped
from agentix.providers.docker.health import wait_healthy
from agentix.providers.docker.image_store import ImageStore
from agentix.providers.docker.images import Images
from agentix.providers.docker.listing import find_sandboxes
from agentix.providers.docker.making import Maker
from agentix.providers.docker.network import set_network
from agentix.providers.docker.roots import unmounted
from agentix.providers.docker.services import Services
from agentix.providers.docker.sweep import Sweep
from agentix.providers.docker.trees import check_mounts
from agentix.providers.docker.warm import WarmPool

if TYPE_CHECKING:
    from typing import Self

_GONE_S = 25.0


class DockerProvider(BaseProvider):
    """Sandboxes that are containers of a Docker or Podman engine, on this machine or another.

    Any Linux image will do: agentix brings its own runtime, mounted read-only, and needs nothing from the image, not
    even a shell. Images are pulled or built as tasks ask for them, once for all trials that wait.

    Isolated: processes, files, users, environment, hostname, shared memory and network, as the engine isolates
    containers, with its default capabilities; `hardened=true` leaves only what running commands needs.

    Not isolated: the kernel, whose flaws are shared (an engine with gVisor or Kata: `oci_runtime`); its load and
    clocks. With a public network a sandbox reaches what the engine's network reaches, the host's open ports included.

    Args:
        config: The options.
    """

    name = "docker"
    Config = DockerConfig
    # With these, a container that is paused is found out within 12 s.
    heartbeat_s = 4.0
    missed_heartbeats = 9
    prepares_ahead = True

    def __init__(self, config: DockerConfig | None = None) -> None:
        super().__init__()
        self._options = config or DockerConfig()
        self.reconnect_s = self._options.reconnect_s
        self._engine_found: Engine | None = None
        self._streams: dict[str, AttachedStream] = {}
        self._dialled: set[str] = set()
        self._memory_limited: set[str] = set()
        self._with_services: set[str] = set()
        self._sweep = Sweep()
        self._entered = False
        self._warm: WarmPool | None = None
        if self._options.warm:
            self._warm = WarmPool(self._options.warm, make=self._make_warm, fits=self._fits, delete=self.delete)

    @property
    def capabilities(self) -> frozenset[Capability]:  # type: ignore[override]
        """What the engine can do; before it was asked, what every engine can."""
        return abilities(self._engine_found.known if self._engine_found is not None else None)

    @property
    def _engine(self) -> Engine:
        if self._engine_found is None:
            self._engine_found = Engine(find_endpoint(host=self._options.host, context=self._options.context))
        return self._engine_found

    @cached_property
    def _images(self) -> Images:
        return Images(self._engine, self._options)

    @cached_property
    def _projects(self) -> Projects:
        return Projects(self._engine, self._options, self._images)

    @cached_property
    def _maker(self) -> Maker:
        return Maker(self._engine, self._options, images=self._images, projects=self._projects)

    async def create(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
        """Create and start a container, with a stream attached to it, or take one that was kept ready.

        Raises:
            Unsupported: The config asks for something that this engine cannot do.
            EnvFailed: The image cannot be had, built or run here, or does not start.
            HostError: The engine or a registry failed.
        """
        if self._warm is None or config.compose is not None:
            return await self._make(config, runtime)
        info = await self._warm.take(config, runtime)
        if info is None:
            return await self._make(config, runtime)
        try:
            await anyio.to_thread.run_sync(given.write, info.id, config.labels)
        except BaseException:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_GONE_S), suppress(AgentixError):
                await self.delete(info.id)
            raise
        return replace(info, labels=dict(config.labels))

    async def _make_warm(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
        return await self._make(config.model_copy(update={"labels": {ownership.WARM: "yes"}}), runtime)

    async def _fits(self, info: SandboxInfo, config: SandboxConfig) -> bool:
        stream = self._streams.get(info.id)
        if stream is None or await fate(self._engine, info.id, log=stream.log) is not None:
            return False
        return (await self._images.get(config, facts=await self._engine.facts())).digest == info.image_digest

    async def _make(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
        facts = await self._engine.facts()
        check_engine(facts, self._engine.endpoint.url)
        refuse(config, options=self._options, facts=facts)
        sandbox_id = f"agentix-{secrets.token_hex(8)}"
        project = None
        if config.compose is not None:
            project = await self._projects.read(sandbox_id, config)
            config = project.config
            refuse(config, options=self._options, facts=facts)
        check_mounts(config, runtime, endpoint=self._engine.endpoint)
        await self._sweep.once(self.orphans, self._remove_foreign)
        image = await self._images.get(config, facts=facts)
        if project is not None:
            image = project.changed(image)
        created_at = time.time()
        labels = ownership.labels_for(
            config.labels,
            workdir=home_of(image),
            user=image.user,
            created_at=created_at,
            lease_s=self._options.lease_s,
        )
        try:
            if project is not None:
                self._with_services.add(sandbox_id)
                await self._projects.up(project, labels=labels)
            image = await self._maker.create(
                sandbox_id, config, image, facts=facts, runtime=runtime, labels=labels, project=project
            )
            self._streams[sandbox_id] = await self._maker.attach(sandbox_id, image)
            await self._maker.start(sandbox_id, image)
        except BaseException:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_GONE_S), suppress(AgentixError):
                await self.delete(sandbox_id)
            raise
        if config.memory_mb is not None:
            self._memory_limited.add(sandbox_id)
        return SandboxInfo(
            id=sandbox_id,
            provider=self.name,
            labels=dict(config.labels),
            workdir=home_of(image),
            env=image.env,
            user=image.user,
            image_digest=image.digest,
            created_at=created_at,
            notes=(*image.notes, *notes(config, facts=facts)),
        )

    async def dial(self, sandbox_id: str) -> ByteStream:
        """The stream to the server, which exists once: when it is closed, the sandbox ends.

        Raises:
            SandboxGone: There is no such sandbox of this process.
            HostError: It was dialled before.
        """
        stream = self._streams.get(sandbox_id)
        if stream is None:
            raise SandboxGone(f"the sandbox {sandbox_id} does not exist in this process")
        if sandbox_id in self._dialled:
            raise HostError(f"the sandbox {sandbox_id} has one stream, which was opened before")
        self._dialled.add(sandbox_id)
        return stream

    async def explain(self, sandbox_id: str) -> SandboxGone:
        """Say why a container's stream has ended: how it ended, whether for memory, what it said."""
        stream = self._streams.get(sandbox_id)
        if stream is None:
            return SandboxGone(f"the sandbox {sandbox_id} was deleted")
        return await cause_of_death(self._engine, sandbox_id, log=stream.log)

    async def stalled(self, sandbox_id: str) -> SandboxGone | None:
        """Say whether a container that is silent was paused, or does not run any more."""
        stream = self._streams.get(sandbox_id)
        return None if stream is None else await fate(self._engine, sandbox_id, log=stream.log)

    async def bridge(self, sandbox_id: str, argv: Sequence[str]) -> ByteStream:
        """Run a program in a container beside its first process, which keeps running when a stream is lost.

        Raises:
            SandboxGone: The container does not run.
            HostError: The engine does not answer, or cannot start the program now.
        """
        before = self._streams.get(sandbox_id)
        if before is None:
            raise SandboxGone(f"the sandbox {sandbox_id} was deleted")
        try:
            stream = await self._engine.execute(sandbox_id, argv)
        except EngineError as error:
            if (gone := await fate(self._engine, sandbox_id, log=before.log)) is not None:
                raise gone from error
            raise
        if sandbox_id not in self._streams:
            await anyio.aclose_forcefully(stream)
            raise SandboxGone(f"the sandbox {sandbox_id} was deleted")
        stream.follow(before)
        self._streams[sandbox_id] = stream
        return stream

    def misstarted(self, sandbox_id: str, greeting: Mapping[str, Any]) -> HostError | None:
        """Say whether a container came up without the files of its image."""
        return unmounted(sandbox_id, greeting)

    async def settle(self, sandbox_id: str) -> None:
        """Wait until the sandbox's own service in a compose file is healthy, where that has a check.

        Raises:
            EnvFailed: It is not.
        """
        if sandbox_id in self._with_services:
            await wait_healthy(self._engine, sandbox_id)

    async def set_network(self, sandbox_id: str, network: Network, *, allowed_hosts: Sequence[str] = ()) -> None:
        """Connect a container to the engine's network, or disconnect it from all.

        Raises:
            Unsupported: It has services beside it, or the network is an allowlist, or the engine is Podman.
            SandboxGone: There is no such container.
            HostError: The engine failed.
        """
        if sandbox_id in self._with_services:
            raise Unsupported("provider docker cannot switch the network of a sandbox that has services beside it")
        if Capability.NETWORK_SWITCH not in self.capabilities:
            raise Unsupported("Podman cannot switch the network of a sandbox that runs")
        await set_network(self._engine, sandbox_id, network, public=self._options.public_network)

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
        """Run a command in a service beside a sandbox; at its limit it is left behind.

        Raises:
            EnvFailed: There is no such service, or it does not run.
            HostError: The engine failed.
        """
        return await Services(self._engine).execute(
            sandbox_id, service, command, user=user, timeout_s=timeout_s, output_limit=output_limit
        )

    async def service_download(self, sandbox_id: str, service: str, remote: str, local: Path) -> Sequence[str]:
        """Copy a file or a tree out of a service beside a sandbox; returns what was left out.

        Raises:
            FileNotFoundError: There is no such path.
            EnvFailed: There is no such service.
            HostError: The engine failed.
        """
        return await Services(self._engine).download(sandbox_id, service, remote, local)

    async def remarks(self, sandbox_id: str) -> tuple[str, ...]:
        """Tell of processes that were killed for memory, which the exit code of what started them may hide."""
        if sandbox_id not in self._memory_limited:
            return ()
        return await what_tripped(self._engine, sandbox_id)

    async def delete(self, sandbox_id: str) -> None:
        """Remove a container, of this process or another's; returns when the engine has it no more.

        Raises:
            HostError: It is still there.
        """
        stream = self._streams.pop(sandbox_id, None)
        self._dialled.discard(sandbox_id)
        self._memory_limited.discard(sandbox_id)
        given.forget(sandbox_id)
        if stream is not None:
            await stream.aclose()
        await self._remove_all(sandbox_id, foreign=stream is None)
        if not self._streams and not self._entered:
            # Whoever uses a provider without entering it need not close it either.
            await self._engine.aclose()

    async def list(self, labels: Mapping[str, str]) -> list[SandboxInfo]:
        """The containers on this engine that are sandboxes and carry all of these labels, whoever made them."""
        return [found.info for found in await find_sandboxes(self._engine, labels)]

    async def orphans(self) -> tuple[SandboxInfo, ...]:
        """The sandboxes whose owner has died without deleting them."""
        return tuple(found.info for found in await find_sandboxes(self._engine, {}) if found.abandoned)

    async def check(self) -> Sequence[str]:
        """What keeps sandboxes from being made on this engine, each with its remedy."""
        try:
            facts = await self._engine.facts()
            check_engine(facts, self._engine.endpoint.url)
            await base_runtime()
        except AgentixError as error:
            return [str(error)]
        finally:
            await self._engine_aclose()
        return []

    async def prefetch(self, config: SandboxConfig) -> None:
        """Pull or build what sandboxes of this config need, once for all who ask at the same time.

        Raises:
            EnvFailed: The image cannot be had, built or run here.
            HostError: The engine or a registry failed.
        """
        facts = await self._engine.facts()
        check_engine(facts, self._engine.endpoint.url)
        if config.compose is not None:
            project = await self._projects.read(f"agentix-{secrets.token_hex(8)}", config)
            await self._projects.fetch(project)
            config = project.config
        if config.image is not None:
            await self._images.get(config, facts=facts)

    async def images(self) -> Sequence[KeptImage]:
        """The images that were built for tasks on this engine, whoever built them."""
        return await ImageStore(self._engine).images()

    async def prune_images(self, *, unused_for_s: float, dry_run: bool) -> PrunedImages:
        """Remove what nobody has asked for in this time: images that were built for tasks, and agentix's volumes."""
        return await ImageStore(self._engine).prune(unused_for_s=unused_for_s, dry_run=dry_run)

    async def __aenter__(self) -> Self:
        self._entered = True
        return self

    async def aclose(self) -> None:
        """Delete what is left of this provider's sandboxes, and hang up."""
        with anyio.CancelScope(shield=True):
            if self._warm is not None:
                await self._warm.aclose()
            for sandbox_id in [*self._streams]:
                await self.delete(sandbox_id)
            self._entered = False
            await self._engine_aclose()

    async def _engine_aclose(self) -> None:
        if self._engine_found is not None:
            await self._engine_found.aclose()

    async def _remove_foreign(self, sandbox_id: str) -> None:
        await self._remove_all(sandbox_id, foreign=True)

    async def _remove_all(self, sandbox_id: str, *, foreign: bool) -> None:
        projects = self._projects
        services = sandbox_id in self._with_services or (foreign and await projects.is_project(sandbox_id))
        await remove_container(self._engine, sandbox_id)
        if services:
            await projects.remove(sandbox_id)
            self._with_services.discard(sandbox_id)
