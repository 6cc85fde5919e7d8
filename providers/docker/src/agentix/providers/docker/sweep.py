"""Deletes what dead owners have left on an engine, once, before the first sandbox is made."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import anyio

from agentix.api import HostError, SandboxInfo

_LOG = logging.getLogger("agentix.providers.docker")
_WIDTH = 8


class Sweep:
    """Done once for each provider object; what cannot be deleted then is left to `agentix gc`."""

    def __init__(self) -> None:
        self._lock = anyio.Lock()
        self._done = False

    async def once(
        self, orphans: Callable[[], Awaitable[Sequence[SandboxInfo]]], remove: Callable[[str], Awaitable[None]]
    ) -> None:
        """Delete the orphans, unless that was done before.

        Args:
            orphans: Gives what was left.
            remove: Removes one of them by its id.
        """
        async with self._lock:
            if self._done:
                return
            self._done = True
            with suppress(HostError):
                left = await orphans()
                width = anyio.CapacityLimiter(_WIDTH)

                async def sweep(sandbox_id: str) -> None:
                    async with width:
                        with suppress(HostError):
                            await remove(sandbox_id)

                async with anyio.create_task_group() as group:
                    for info in left:
                        _LOG.warning("deleting %s, whose owner has died", info.id)
                        group.start_soon(sweep, info.id)
