"""Places to run commands in: each has a command to itself, and is used again when nothing of it is left."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from agentix.api import HostError, HostProcessProvider, Sandbox, SandboxConfig

if TYPE_CHECKING:
    from anyio.abc import TaskGroup, TaskStatus

_KEPT = 16
"""How many wait to be used again."""


@dataclass(eq=False)
class Place:
    """One server that runs commands, with the task that keeps its session open."""

    sandbox: Sandbox
    retire: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)


class Pool:
    """As many places as commands run at once.

    Each is a server that outlives neither this process nor its place in the pool, and takes down with it whatever
    its command has started, in new sessions too.

    Args:
        group: Where the sessions are kept open.
    """

    def __init__(self, group: TaskGroup) -> None:
        self._group = group
        self._provider = HostProcessProvider()
        self._idle: list[Place] = []

    async def take(self) -> Place:
        """A place that nobody else has."""
        while self._idle:
            place = self._idle.pop()
            if place.sandbox.alive:
                return place
            await self._retire(place)
        place = await self._group.start(self._hold)
        assert isinstance(place, Place)
        return place

    async def give(self, place: Place, *, clean: bool) -> bool:
        """Take a place back; whatever runs in it is ended.

        Args:
            place: What `take` gave.
            clean: Whether its command ended by itself.

        Returns:
            Whether the command had left something running.
        """
        left = False
        if clean and place.sandbox.alive and len(self._idle) < _KEPT:
            try:
                left = bool(await place.sandbox.count_processes())
                if left:
                    await place.sandbox.kill_all()
                self._idle.append(place)
                return left
            except HostError:
                left = True
        await self._retire(place)
        return left

    async def close(self) -> None:
        """End all that wait."""
        while self._idle:
            await self._retire(self._idle.pop())

    async def _retire(self, place: Place) -> None:
        place.retire.set()
        await place.ended.wait()

    async def _hold(self, *, task_status: TaskStatus[Place]) -> None:
        place: Place | None = None
        try:
            # A place that died is the affair of the command that was in it.
            with suppress(HostError):
                async with self._provider.session(SandboxConfig()) as sandbox:
                    place = Place(sandbox)
                    task_status.started(place)
                    await place.retire.wait()
        finally:
            if place is not None:
                place.ended.set()
