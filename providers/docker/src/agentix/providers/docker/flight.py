"""Work that several tasks need is done once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio

from agentix.api import TrialError

T = TypeVar("T")


class _Flight(Generic[T]):
    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.value: T | None = None
        self.error: TrialError | None = None
        self.landed = False


class Flights(Generic[T]):
    """Calls by key, with their results.

    Who comes while a call is under way gets its result or its error. Where the one that makes it is cancelled, the next
    one that waits makes it again. Results are kept until they are forgotten, errors are not.
    """

    def __init__(self) -> None:
        self.kept: dict[str, T] = {}
        self._flights: dict[str, _Flight[T]] = {}

    async def get(self, key: str, work: Callable[[], Awaitable[T]]) -> T:
        """What is kept, or what comes of the work: of doing it, or of waiting for who does it already."""
        if key not in self.kept:
            self.kept[key] = await self._run(key, work)
        return self.kept[key]

    def forget(self, which: Callable[[T], bool]) -> None:
        """Keep these results no longer."""
        self.kept = {key: found for key, found in self.kept.items() if not which(found)}

    async def _run(self, key: str, work: Callable[[], Awaitable[T]]) -> T:
        flight = self._flights.setdefault(key, _Flight())
        async with flight.lock:
            if not flight.landed:
                try:
                    flight.value = await work()
                except TrialError as error:
                    flight.error = error
                flight.landed = True
                # Who comes from now on does not want what was found out before.
                if self._flights.get(key) is flight:
                    del self._flights[key]
        if flight.error is not None:
            raise _again(flight.error) from flight.error
        return flight.value  # type: ignore[return-value]


def _again(error: TrialError) -> TrialError:
    """The same error as an exception of its own, since several tasks may raise it at once."""
    other = type(error).__new__(type(error))
    other.args = error.args
    other.__dict__.update(error.__dict__)
    return other
