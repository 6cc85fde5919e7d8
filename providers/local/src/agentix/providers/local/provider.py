"""The provider `local`: sandboxes on this machine, by bubblewrap."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, ClassVar, TypeVar

import anyio
from anyio.abc import ByteStream
from anyio.lowlevel import current_token

from agentix.api import (
    SERVER_ARGS,
    AgentixError,
    BaseProvider,
    Capability,
    HostError,
    RuntimeMount,
    SandboxConfig,
    SandboxGone,
    SandboxInfo,
    SocketStream,
    base_runtime,
)
from agentix.providers.local import cgroups
from agentix.providers.local.box import Box, clear, end, wait
from agentix.providers.local.bubblewrap import find_bubblewrap, is_reachable
from agentix.providers.local.config import LocalConfig
from agentix.providers.local.directories import refuse_directories
from agentix.providers.local.etc import prepare_etc
from agentix.providers.local.identity import identity_for
from agentix.providers.local.image import Image
from agentix.providers.local.lease import Lease, Leases
from agentix.providers.local.network import can_connect, find_connect
from agentix.providers.local.planning import (
    ENV,
    Machine,
    choose_user,
    directories,
    limits,
    make_plan,
    notes,
    read_image,
    refuse,
)
from agentix.providers.local.preflight import explain, namespace_settings
from agentix.providers.local.starting import start

T = TypeVar("T")

_LOG = logging.getLogger("agentix.providers.local")
_THREADS = 8
_DEATH_S = 5.0
_TRY_S = 60.0


class LocalProvider(BaseProvider):
    """Sandboxes on this machine, made by bubblewrap from the host's own tools; there is nothing to build or pull.

    Isolated: processes, files, users, environment, hostname, shared memory and network. A sandbox sees the host's
    /usr (with /bin and /lib) and a few harmless files of /etc read-only, and a file system of its own for the rest.
    It sees no home directory, no secret and no process of the host. Root inside is an unused uid outside.

    Not isolated: the kernel, whose flaws are shared; its load, entropy and clocks; what everyone may read below
    /usr; disk and memory bandwidth. Files live in memory. With a public network a sandbox reaches what the host
    reaches except its loopback, and with `share_host_network` that too. It is meant for code that may be wrong
    or careless; for code that attacks the kernel use a virtual machine.

    Args:
        config: The options.
    """

    name = "local"
    Config = LocalConfig
    contract_waivers: ClassVar[Mapping[str, str]] = {
        "refuses_images": "the host's tools stand in for an image, which is noted; `images=refuse` refuses it",
        "refuses_cpu_limit": "where no control group can be made, tasks go on without a limit, which is noted",
    }

    def __init__(self, config: LocalConfig | None = None) -> None:
        super().__init__()
        self._options = config or LocalConfig()
        self.capabilities = self._abilities()
        self._leases = Leases()
        self._boxes: dict[str, Box] = {}
        self._machine: Machine | None = None
        self._machine_lock = threading.Lock()
        # Bubblewrap ends with the thread that started it: these last as long as the provider.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="agentix-local")

    def _abilities(self) -> frozenset[Capability]:
        able = {Capability.ISOLATION, Capability.STORAGE_LIMIT, Capability.PIDS_LIMIT, Capability.LISTING}
        able.add(Capability.MEMORY_LIMIT)
        if "cpu" in cgroups.usable_parents():
            able.add(Capability.CPU_LIMIT)
        if identity_for(0, uid_base=self._options.uid_base).has_users:
            able.add(Capability.USERS)
        if self._options.share_host_network or can_connect():
            able.add(Capability.NETWORK_PUBLIC)
        return frozenset(able)

    async def create(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
        """Create a sandbox.

        Raises:
            Unsupported: The config asks for something that this provider cannot do.
            EnvFailed: The Dockerfile needs a build, its files cannot be copied, or a directory cannot be made.
            HostError: The sandbox cannot be made on this machine.
        """
        future = self._threads.submit(self._create, config, runtime)
        try:
            return await _result_of(future)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True), suppress(AgentixError):
                await self.delete((await _result_of(future)).id)
            raise

    async def dial(self, sandbox_id: str) -> ByteStream:
        """The stream to the server, which exists once: when it is closed, the sandbox ends.

        Raises:
            SandboxGone: There is no such sandbox of this process.
            HostError: It was dialled before.
        """
        box = self._boxes.get(sandbox_id)
        if box is None or box.ended:
            raise SandboxGone(f"the sandbox {sandbox_id} does not exist in this process")
        if box.dialled:
            raise HostError(f"the sandbox {sandbox_id} has one stream, which was opened before")
        box.dialled = True
        return SocketStream(box.wire)

    async def explain(self, sandbox_id: str) -> SandboxGone:
        """Say why the stream of a sandbox has ended: how its server ended, whether for memory, what it said."""
        box = self._boxes.get(sandbox_id)
        if box is None:
            return await super().explain(sandbox_id)
        return await _result_of(self._threads.submit(_cause_of_death, box))

    async def remarks(self, sandbox_id: str) -> tuple[str, ...]:
        """Tell of processes that were killed for memory, which the exit code of what started them may hide."""
        box = self._boxes.get(sandbox_id)
        kills = 0 if box is None else box.oom_kills()
        if not kills:
            return ()
        _LOG.warning("sandbox %s: processes killed for memory: %d", sandbox_id, kills)
        return (f"local: processes of the sandbox that were killed for memory: {kills}",)

    async def delete(self, sandbox_id: str) -> None:
        """Delete a sandbox, of this process or another's; returns when nothing of it is left.

        Raises:
            HostError: Something of it is left.
        """
        await _result_of(self._threads.submit(self._delete, sandbox_id))

    async def check(self) -> list[str]:
        """What keeps sandboxes from being made on this machine, each with its remedy."""
        try:
            runtime = await base_runtime()
            await _result_of(self._threads.submit(self._ready, runtime))
        except AgentixError as error:
            # A setting explains a failure; it is none where sandboxes can be made all the same.
            return [*namespace_settings(), str(error)]
        return []

    async def orphans(self) -> tuple[SandboxInfo, ...]:
        """The sandboxes whose owner has died without deleting them."""
        leases = await _result_of(self._threads.submit(lambda: [*self._leases.all()]))
        return tuple(_info(lease) for lease in leases if lease.owner.is_dead())

    async def list(self, labels: Mapping[str, str]) -> list[SandboxInfo]:
        """The sandboxes on this machine that carry all of these labels, whoever made them."""
        leases = await _result_of(self._threads.submit(lambda: [*self._leases.all()]))
        return [_info(lease) for lease in leases if labels.items() <= lease.labels.items()]

    async def aclose(self) -> None:
        """Delete what is left of this provider's sandboxes."""
        with anyio.CancelScope(shield=True):
            for sandbox_id in [*self._boxes]:
                await self.delete(sandbox_id)
            self._threads.shutdown(wait=False)

    def _create(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
        machine = self._ready(runtime)
        refuse(config, identity=identity_for(0, uid_base=self._options.uid_base))
        image = read_image(config, options=self._options, machine=machine)
        box = self._start(config, image, machine=machine, runtime=runtime, server=SERVER_ARGS)
        self._boxes[box.lease.id] = box
        return _info(
            box.lease,
            env={**ENV, **image.env},
            notes=(*notes(config, image, options=self._options, machine=machine), *box.notes),
        )

    def _ready(self, runtime: RuntimeMount) -> Machine:
        """Look at the machine, once, and make sure that sandboxes can be made on it."""
        with self._machine_lock:
            if self._machine is None:
                bubblewrap = find_bubblewrap(chosen=self._options.bubblewrap)
                machine = Machine(bubblewrap=bubblewrap, etc=prepare_etc(), connect=find_connect(bubblewrap.path))
                for path in (runtime.path, machine.etc.folder, machine.bubblewrap.path, *self._options.show):
                    if not is_reachable(path):
                        raise HostError(
                            f"{path} cannot be read by the users that sandboxes run as",
                            hint="set AGENTIX_CACHE_DIR to a directory outside any home, or chmod its parents",
                        )
                self._sweep()
                self._try(machine, runtime)
                self._machine = machine
        return self._machine

    def _sweep(self) -> None:
        """Remove what dead owners have left, such as empty control groups."""
        self._leases.drop_torn()
        for lease in [*self._leases.all()]:
            if lease.owner.is_dead():
                with suppress(HostError):
                    clear(lease, self._leases)

    def _try(self, machine: Machine, runtime: RuntimeMount) -> None:
        """Let the interpreter start and end in a sandbox, so that what is wrong is said once and in time.

        Raises:
            HostError: Why no sandbox can be made here.
        """
        box = self._start(SandboxConfig(), Image(), machine=machine, runtime=runtime, server=("-c", ""))
        try:
            code = wait(box.process, limit_s=_TRY_S)
            said = box.log_tail()
        finally:
            end(box, self._leases)
        if code is None:
            raise HostError(f"a sandbox does not end within {_TRY_S:.0f} s", detail="bubblewrap")
        if code:
            raise explain(said or f"the interpreter ended with exit code {code}")

    def _start(
        self, config: SandboxConfig, image: Image, *, machine: Machine, runtime: RuntimeMount, server: Sequence[str]
    ) -> Box:
        wanted = limits(config, options=self._options)
        refuse_directories(directories(config, image), etc=machine.etc, shown=self._options.show)
        user = choose_user(config, image, identity=identity_for(0, uid_base=self._options.uid_base), etc=machine.etc)
        lease = self._leases.claim(
            created_at=time.time(),
            labels=config.labels,
            workdir=config.workdir or image.workdir,
            user=user,
            cgroups=lambda sandbox_id: tuple(str(path) for path in cgroups.groups_for(f"agentix-{sandbox_id}", wanted)),
        )
        plan = make_plan(
            config,
            image,
            options=self._options,
            machine=machine,
            identity=identity_for(lease.slot, uid_base=self._options.uid_base),
            runtime=runtime,
            server=server,
        )
        return start(plan, lease, self._leases)

    def _delete(self, sandbox_id: str) -> None:
        box = self._boxes.get(sandbox_id)
        if box is not None:
            end(box, self._leases)
            del self._boxes[sandbox_id]
        elif (lease := self._leases.find(sandbox_id)) is not None:
            clear(lease, self._leases)


def _cause_of_death(box: Box) -> SandboxGone:
    if box.ended:
        return SandboxGone(f"the sandbox {box.lease.id} was deleted")
    code = wait(box.process, limit_s=_DEATH_S)
    if code is None:
        return SandboxGone(f"the server of sandbox {box.lease.id} hung up, but runs on", log_tail=box.log_tail())
    said = box.log_tail()
    oom = box.oom_kills() > 0
    if said.startswith("bwrap:"):
        reason = explain(said)
        return SandboxGone(reason.message, exit_code=code, log_tail=said, hint=reason.hint)
    cause = "it was out of memory" if oom else f"its server ended with exit code {code}"
    tail = f"; it said: {said.splitlines()[-1]}" if said else ""
    return SandboxGone(f"the sandbox {box.lease.id} is gone: {cause}{tail}", exit_code=code, oom=oom, log_tail=said)


def _info(lease: Lease, *, env: Mapping[str, str] | None = None, notes: tuple[str, ...] = ()) -> SandboxInfo:
    return SandboxInfo(
        id=lease.id,
        provider=LocalProvider.name,
        labels=lease.labels,
        workdir=lease.workdir,
        env=env or ENV,
        user=lease.user,
        created_at=lease.created_at,
        notes=notes,
    )


async def _result_of(future: Future[T]) -> T:
    """Wait for a thread without blocking the event loop; the thread is not stopped by cancellation."""
    done = anyio.Event()
    # Unlike anyio's way into a loop, its own ones do not make the thread wait until the loop has taken it.
    loop: Any = current_token().native_token
    soon = loop.call_soon_threadsafe if hasattr(loop, "call_soon_threadsafe") else loop.run_sync_soon
    here = threading.get_ident()
    waits = True

    def finished(_: Future[T]) -> None:
        if not waits:
            return
        if threading.get_ident() == here:
            # It was done before anybody waited: waiting for this very loop would never end.
            done.set()
            return
        # The loop may be over by the time that a thread is.
        with suppress(RuntimeError):
            soon(done.set)

    future.add_done_callback(finished)
    try:
        await done.wait()
    finally:
        waits = False
    return future.result()
