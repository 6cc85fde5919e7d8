"""Connecting at the first call: whoever makes that call may be cancelled, and the next one finds what was begun."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from agentix.errors import SandboxGone
from agentix.sandbox.connection import Connection


class FirstConnection:
    """A connection that goes on being made where who has asked for it is cancelled: its stream is had only once.

    Args:
        make: Makes it.
        group: Lasts as long as the sandbox.
    """

    def __init__(self, make: Callable[[], Awaitable[Connection]], *, group: TaskGroup) -> None:
        self._make = make
        self._group = group
        self._over: anyio.Event | None = None
        self._made: Connection | None = None
        self._failure: BaseException | None = None

    async def get(self) -> Connection:
        """Begin to make it where nobody has, and wait for it. After a failure the next call begins again."""
        if self._over is None:
            self._over = anyio.Event()
            self._group.start_soon(self._run, self._over)
        await self._over.wait()
        if self._made is not None:
            return self._made
        self._over = None
        raise self._told()

    async def _run(self, over: anyio.Event) -> None:
        try:
            self._made = await self._make()
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:
            self._failure = error
        finally:
            over.set()

    def _told(self) -> BaseException:
        failure, self._failure = self._failure, None
        return failure or SandboxGone("the sandbox was closed while it was dialled")
