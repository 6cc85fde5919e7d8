"""How often something is done in a second."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import anyio


async def rate(function: Callable[[], Awaitable[None]], count: int, *, width: int) -> float:
    """How many calls of a function end in a second, `width` of them at a time."""
    limiter = anyio.CapacityLimiter(width)

    async def limited() -> None:
        async with limiter:
            await function()

    began = time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(limited)
    return count / (time.perf_counter() - began)
