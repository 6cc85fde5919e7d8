"""Containers kept ready for configs that are asked for again and again."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import anyio

from agentix.api import AgentixError, Background, RuntimeMount, SandboxConfig, SandboxInfo

_LOG = logging.getLogger("agentix.providers.docker")
_CONFIGS = 4
"""Of how many configs at a time containers are kept; where another is asked for, those of the oldest go."""
_AGAIN = 2

Make = Callable[[SandboxConfig, RuntimeMount], Awaitable[SandboxInfo]]
Fits = Callable[[SandboxInfo, SandboxConfig], Awaitable[bool]]
Delete = Callable[[str], Awaitable[None]]


@dataclass
class _Kind:
    """Containers of one config."""

    config: SandboxConfig
    runtime: RuntimeMount
    ready: deque[SandboxInfo] = field(default_factory=deque)
    asked: int = 0
    making: int = 0
    failed: bool = False
    forgotten: bool = False


class WarmPool:
    """Keeps containers ready of each config that was asked for twice.

    What it makes, it makes in a task of its own, which ends with `aclose` or with the event loop; nothing is left then.

    Args:
        count: How many of each config.
        make: Makes a container for nobody.
        fits: Whether a container lives, and is what `make` would make now.
        delete: Deletes one.
    """

    def __init__(self, count: int, *, make: Make, fits: Fits, delete: Delete) -> None:
        self._count = count
        self._make = make
        self._fits = fits
        self._delete = delete
        self._kinds: OrderedDict[str, _Kind] = OrderedDict()
        self._unwanted: list[str] = []
        self._asked: anyio.Event | None = None
        self._ended: anyio.Event | None = None
        self._scope: anyio.CancelScope | None = None
        self._background: Background | None = None

    async def take(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo | None:
        """A container of this config that nobody else gets, if one is ready; others are made from now on.

        Labels make no difference: the container has none yet.

        Raises:
            EnvFailed: The image cannot be had any more.
            HostError: The engine failed.
        """
        key = f"{runtime.digest} {config.model_dump_json(exclude={'labels', 'build_timeout_s'})}"
        kind = self._kinds.setdefault(key, _Kind(config, runtime))
        self._kinds.move_to_end(key)
        kind.asked += 1
        kind.failed = False
        found = None
        try:
            while found is None and kind.ready:
                info = kind.ready.popleft()
                try:
                    if await self._fits(info, config):
                        found = info
                finally:
                    if found is None:
                        _LOG.info("the sandbox %s, which was kept ready, is of no use any more", info.id)
                        self._unwanted.append(info.id)
        finally:
            self._refill()
        return found

    async def aclose(self) -> None:
        """Make no more, and delete what nobody has taken; returns when it is gone."""
        if self._scope is not None and self._ended is not None:
            self._scope.cancel()
            with anyio.CancelScope(shield=True):
                await self._ended.wait()

    def _refill(self) -> None:
        if self._ended is None or self._ended.is_set():
            self._asked, self._ended, self._scope = anyio.Event(), anyio.Event(), anyio.CancelScope()
            self._background = Background(self._run, name="agentix.docker.warm")
        elif self._asked is not None:
            self._asked.set()

    async def _run(self) -> None:
        assert self._ended is not None and self._scope is not None
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    while True:
                        self._asked = asked = anyio.Event()
                        await self._drop()
                        for kind in list(self._kinds.values()):
                            while kind.asked >= _AGAIN and not kind.failed and self._lacks(kind):
                                kind.making += 1
                                tasks.start_soon(self._add, kind)
                        await asked.wait()
        finally:
            with anyio.CancelScope(shield=True):
                for kind in self._kinds.values():
                    self._unwanted += [info.id for info in kind.ready]
                self._kinds.clear()
                await self._drop()
            self._ended.set()

    def _lacks(self, kind: _Kind) -> bool:
        return len(kind.ready) + kind.making < self._count

    async def _add(self, kind: _Kind) -> None:
        try:
            info = await self._make(kind.config, kind.runtime)
        except AgentixError as error:
            # Whoever asks next makes one without help, and is told what is wrong.
            kind.failed = True
            _LOG.info("no sandbox could be kept ready: %s", error)
        else:
            if kind.forgotten:
                self._unwanted.append(info.id)
                self._refill()
            else:
                kind.ready.append(info)
        finally:
            kind.making -= 1

    async def _drop(self) -> None:
        while len(self._kinds) > _CONFIGS:
            _, oldest = self._kinds.popitem(last=False)
            self._unwanted += [info.id for info in oldest.ready]
            oldest.ready.clear()
            oldest.forgotten = True
        while self._unwanted:
            sandbox_id = self._unwanted.pop()
            with suppress(AgentixError):
                await self._delete(sandbox_id)
