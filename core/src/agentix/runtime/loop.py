"""One thread's event loop: descriptors, timers, and calls that take turns."""

from __future__ import annotations

import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from agentix.runtime.call import Call

_LONGEST_S = 3600.0


class Loop:
    """What a server waits for, and what it does then."""

    congested = False
    """Whether the host takes its frames more slowly than they come: nobody then gets a turn."""

    def __init__(self) -> None:
        self._woken: dict[Call, None] = {}
        self._soon: list[Callable[[], None]] = []
        self._timers: list[list[Any]] = []
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._epoll = select.epoll()

    def watch(self, fd: int, events: int, handler: Callable[[int], None]) -> None:
        """Call `handler` with what happens to a descriptor."""
        self._epoll.register(fd, events)
        self._handlers[fd] = handler

    def rearm(self, fd: int, events: int) -> None:
        """Change what is watched for."""
        self._epoll.modify(fd, events)

    def unwatch(self, fd: int) -> None:
        """Forget a descriptor; call it before closing it."""
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def wake(self, call: Call) -> None:
        """Give a call its turn; the turns go round."""
        self._woken[call] = None

    def soon(self, function: Callable[[], None]) -> None:
        """Call a function once this turn's answers are sent."""
        self._soon.append(function)

    def later(self, seconds: float, function: Callable[[], None]) -> list[Any]:
        """Call a function after some time."""
        timer = [time.monotonic() + seconds, function]
        # Few wait at a time: loading the module for heaps would cost more than it saves.
        at = len(self._timers)
        while at and self._timers[at - 1][0] > timer[0]:
            at -= 1
        self._timers.insert(at, timer)
        return timer

    def forget(self, timer: list[Any]) -> None:
        """Do not call a timer's function."""
        timer[1] = None

    def turn(self, flush: Callable[[], None]) -> None:
        """Wait until something happens, and do what it asks for.

        Args:
            flush: Sends what there is to send.
        """
        for fd, events in self._epoll.poll(self._timeout(), 128):
            handler = self._handlers.get(fd)
            if handler is not None:
                handler(events)
        self._run_timers()
        self._take_turns()
        flush()
        if self._soon:
            functions, self._soon = self._soon, []
            for function in functions:
                function()

    def close(self) -> None:
        """Watch nothing any more."""
        self._epoll.close()

    def _timeout(self) -> float:
        if self._woken and not self.congested:
            return 0
        while self._timers and self._timers[0][1] is None:
            self._timers.pop(0)
        return min(max(0.0, self._timers[0][0] - time.monotonic()), _LONGEST_S) if self._timers else -1

    def _run_timers(self) -> None:
        while self._timers and (self._timers[0][1] is None or self._timers[0][0] <= time.monotonic()):
            function = self._timers.pop(0)[1]
            if function is not None:
                function()

    def _take_turns(self) -> None:
        for _ in range(len(self._woken)):
            if self.congested or not self._woken:
                return
            call = next(iter(self._woken))
            del self._woken[call]
            try:
                call.step()
            except Exception as error:
                call.fail(error)
