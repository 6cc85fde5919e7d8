"""Tells whoever watches a run what happens in it, in order."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable

import anyio

from agentix.models import Event
from agentix.runner.boundary import described

OnEvent = Callable[[Event], Awaitable[None] | None]


class Feed:
    """Delivers events to one callback; one that fails breaks nothing and is told once.

    A plain function is called at once. What an async one returns is awaited by `run`, in order.
    """

    def __init__(self, on_event: OnEvent | None) -> None:
        self.watched = on_event is not None
        self._on_event = on_event
        self._waiting: deque[Awaitable[None]] = deque()
        self._arrived = anyio.Event()
        self._idle = anyio.Event()
        self._idle.set()
        self._told: set[str] = set()
        self._troubles: list[str] = []

    def emit(self, event: Event) -> None:
        """Tell of one event."""
        if self._on_event is None:
            return
        try:
            waiting = self._on_event(event)
        except Exception as exc:
            self._trouble(exc)
            return
        if inspect.isawaitable(waiting):
            self._waiting.append(waiting)
            if self._idle.is_set():
                self._idle = anyio.Event()
            self._arrived.set()

    async def run(self) -> None:
        """Await what an async callback returned, until cancelled."""
        try:
            while True:
                while self._waiting:
                    try:
                        await self._waiting.popleft()
                    except Exception as exc:
                        self._trouble(exc)
                self._idle.set()
                self._arrived = anyio.Event()
                await self._arrived.wait()
        finally:
            while self._waiting:
                waiting = self._waiting.popleft()
                if inspect.iscoroutine(waiting):
                    waiting.close()
            self._idle.set()

    async def delivered(self) -> None:
        """Wait until all events so far have been delivered."""
        if not self._idle.is_set():
            await self._idle.wait()

    def troubles(self) -> list[str]:
        """Notes on a callback that failed, since the last call; each is told once."""
        found, self._troubles = self._troubles, []
        return found

    def _trouble(self, exc: Exception) -> None:
        text = f"on_event failed: {described(exc)}"
        if text not in self._told:
            self._told.add(text)
            self._troubles.append(text)
