"""The sandboxes of one attempt: made ready before or made now, and deleted at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from anyio.abc import TaskGroup

from agentix.errors import HostError
from agentix.interfaces import SandboxProvider
from agentix.models import SandboxConfig
from agentix.runner.ahead import Ahead
from agentix.runner.boundary import described
from agentix.runner.lease import Lease
from agentix.runner.phases import Phases

if TYPE_CHECKING:
    from agentix.sandbox import Sandbox


class Sandboxes:
    """Opens and closes them, and tells what is to be told of each.

    Args:
        provider: Makes them.
        phases: The attempt's clock.
        tasks: Where they are held.
        ahead: Makes them before they are needed.
        ready: One that was begun for this attempt.
        note: Told each note.
        told: What providers have said in this run, so that it is said once.
    """

    def __init__(
        self,
        provider: SandboxProvider,
        *,
        phases: Phases,
        tasks: TaskGroup,
        ahead: Ahead | None,
        ready: Lease | None,
        note: Callable[[str], None],
        told: set[str],
    ) -> None:
        self.unreleased: list[str] = []
        """Ids of those that may still exist."""
        self._provider = provider
        self._phases = phases
        self._tasks = tasks
        self._ahead = ahead
        self._ready = [] if ready is None else [ready]
        self._note = note
        self._told = told
        self._leases: dict[int, Lease] = {}

    @property
    def all_alive(self) -> bool:
        """Whether none of the open ones was lost."""
        return all(lease.alive for lease in self._leases.values())

    async def open(self, config: SandboxConfig) -> Sandbox:
        """One of this config: made ready before, or made now.

        Raises:
            TrialError: It could not be had, or not in time.
        """
        lease = await self._made_ready(config)
        if lease is None:
            lease = Lease(self._provider, config, self._phases)
            try:
                await lease.open(self._tasks)
            finally:
                self._tell_unreleased(lease)
        sandbox = lease.sandbox
        assert sandbox is not None
        self._leases[id(sandbox)] = lease
        for note in sandbox.info.notes:
            if note not in self._told:
                self._told.add(note)
                self._note(note)
        return sandbox

    def prepare(self, config: SandboxConfig) -> None:
        """Begin to make one that `open` will be asked for, if the budget has room."""
        lease = None if self._ahead is None else self._ahead.begin(config, self._phases.apart())
        if lease is not None:
            self._ready.append(lease)

    async def close(self, sandbox: Sandbox) -> None:
        """Delete one that is open; returns when it is gone."""
        lease = self._leases.pop(id(sandbox), None)
        if lease is not None:
            await self._end(lease)

    async def close_all(self) -> None:
        """Delete what is still open, and what was made ready and not needed."""
        unused, self._ready = self._ready, []
        for lease in unused:
            lease.drop()
        for lease in reversed(list(self._leases.values())):
            await self._end(lease)
        self._leases.clear()
        for lease in unused:
            await self._unused(lease)

    async def _made_ready(self, config: SandboxConfig) -> Lease | None:
        """A sandbox of this config that was begun before and lives, if there is one."""
        lease = next((lease for lease in self._ready if lease.config == config), None)
        if lease is None or self._ahead is None:
            return None
        self._ready.remove(lease)
        lease.adopt(self._phases)
        try:
            await lease.open(self._tasks)
            if await lease.answers():
                self._ahead.use(lease)
                return lease
            self._note("a sandbox that was made ready was lost before it was needed; another one took its place")
        except HostError as error:
            self._note(f"a sandbox could not be made ready before it was needed: {described(error)}")
        except BaseException:
            await self._unused(lease)
            raise
        await self._unused(lease)
        return None

    async def _unused(self, lease: Lease) -> None:
        lease.drop()
        await lease.close()
        self._tell_unreleased(lease)
        if self._ahead is not None:
            self._ahead.use(lease)

    async def _end(self, lease: Lease) -> None:
        await lease.close()
        if lease.sandbox is not None:
            for remark in lease.sandbox.remarks:
                self._note(remark)
        self._tell_unreleased(lease)

    def _tell_unreleased(self, lease: Lease) -> None:
        if lease.unreleased is not None:
            sandbox_id, why = lease.unreleased
            self.unreleased.append(sandbox_id)
            self._note(f"sandbox {sandbox_id} could not be deleted: {why}")
