"""The trials that have not started, which may be looked at before their turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol, runtime_checkable

from agentix.models import Trial


@runtime_checkable
class Foreseen(Protocol):
    """A source of trials that can be looked at without taking anything from it."""

    def upcoming(self, count: int) -> Sequence[Trial]:
        """The next so many trials, as far as they are known to be next."""
        ...


class Upcoming:
    """Takes trials from their source as their turn comes; what is looked at is read before that.

    Args:
        trials: The source, read lazily.
    """

    def __init__(self, trials: Iterable[Trial]) -> None:
        self._source: Iterator[Trial] | None = iter(trials)
        self._foreseen = trials if isinstance(trials, Foreseen) else None
        self._read: deque[Trial] = deque()
        self._error: Exception | None = None

    @property
    def more(self) -> bool:
        """Whether there may be another trial."""
        return bool(self._read) or self._source is not None

    def take(self) -> Trial | None:
        """The next trial; `None` when there is none.

        Raises:
            Exception: What the source raised, when the trials before it have been taken.
        """
        if self._read:
            return self._read.popleft()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return self._pull()

    def look(self, count: int) -> Sequence[Trial]:
        """The next so many trials, or as many as there are."""
        if self._source is not None and self._foreseen is not None:
            return self._foreseen.upcoming(count)
        while len(self._read) < count:
            try:
                trial = self._pull()
            except Exception as exc:
                self._error = exc
                trial = None
            if trial is None:
                break
            self._read.append(trial)
        return list(islice(self._read, count))

    def end(self) -> None:
        """Have no more."""
        self._source, self._error = None, None
        self._read.clear()

    def _pull(self) -> Trial | None:
        if self._source is None:
            return None
        try:
            return next(self._source)
        except StopIteration:
            self._source = None
        except BaseException:
            self._source = None
            raise
        return None
