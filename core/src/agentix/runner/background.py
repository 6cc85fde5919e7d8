"""A task that belongs to no task group: what an iterator without a context needs."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from typing import Any


class Background:
    """Where a task was started, and the way back there from any thread."""

    def __init__(self, main: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> None:
        self._call: Callable[[Callable[[], object]], object]
        trio = sys.modules.get("trio")
        if trio is not None and trio.lowlevel.in_trio_run():
            trio.lowlevel.spawn_system_task(main, name=name, context=copy_context())
            self._call = trio.lowlevel.current_trio_token().run_sync_soon
            self._task: Awaitable[None] | None = None
        else:
            loop = asyncio.get_running_loop()
            # The loop holds its tasks weakly.
            self._task = loop.create_task(main(), name=name)
            self._call = loop.call_soon_threadsafe

    def call(self, function: Callable[[], object]) -> None:
        """Call a function in the event loop's thread, if the loop still runs."""
        with contextlib.suppress(RuntimeError):
            self._call(function)
