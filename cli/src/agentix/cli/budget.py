"""Which trial may start next: a run-wide limit of cost, and reasons to stop."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice

from agentix.models import Trial
from agentix.records import Record


class TrialQueue:
    """Hands trials out one by one, as long as the budget admits another beside those that run.

    What a running trial will cost is not known before it ends. It is taken to cost its own limit where it has
    one, else the mean of what trials cost so far; while that is unknown too, one trial runs alone.

    Args:
        trials: What is to be run.
        max_cost_usd: Limit of the whole run.
        max_trial_cost_usd: Limit of each trial, which its agent keeps to.
        spent_usd: What the run has cost in earlier sessions.
    """

    def __init__(
        self,
        trials: Iterable[Trial],
        *,
        max_cost_usd: float | None = None,
        max_trial_cost_usd: float | None = None,
        spent_usd: float = 0.0,
    ) -> None:
        self.max_cost_usd = max_cost_usd
        self.spent_usd = spent_usd
        self.unknown = 0
        """Trials of this session whose cost is not known."""
        self.stopped: str | None = None
        """Why no more trials are handed out."""
        self._rest = deque(trials)
        self._trial_cost = max_trial_cost_usd
        self._running: set[str] = set()
        self._told = False
        self._known = 0
        self._session_usd = 0.0

    def __len__(self) -> int:
        """How many have not been handed out."""
        return len(self._rest)

    def stop(self, reason: str) -> None:
        """Hand no more out; the first reason stays."""
        self.stopped = self.stopped or reason

    def batch(self) -> Batch:
        """Trials until the budget says to wait for those that run; then it can be called again."""
        return Batch(self)

    def take(self) -> Trial | None:
        """The next trial, if the budget admits it."""
        if not self._rest or self.stopped is not None:
            return None
        if not self._admits():
            if not self._running:
                self.stop(
                    f"--max-cost-usd: ${self.spent_usd:.4f} of ${self.max_cost_usd:.4f} is spent, which leaves "
                    "too little for another trial"
                )
            return None
        trial = self._rest.popleft()
        self._running.add(trial.trial_id)
        return trial

    def upcoming(self, count: int) -> list[Trial]:
        """The trials that would be handed out next; none where the budget admits no other now."""
        return list(islice(self._rest, count)) if self.stopped is None and self._admits() else []

    def finished(self, record: Record) -> str | None:
        """A trial has ended.

        Returns:
            That a limit cannot see what it cost, where that is so for the first time.
        """
        self._running.discard(record.trial_id)
        cost = record.usage.cost_usd if record.usage else None
        if cost is None:
            self.unknown += 1
            return self._unseen(record)
        self._known += 1
        self._session_usd += cost
        self.spent_usd += cost
        return None

    def _unseen(self, record: Record) -> str | None:
        worked = record.usage is not None and bool(record.usage.tokens)
        if self._told or not (self.max_cost_usd is not None or (self._trial_cost is not None and worked)):
            return None
        self._told = True
        limit = "--max-cost-usd" if self.max_cost_usd is not None else "max_cost_usd"
        return f"{record.trial_id}: what it cost is unknown; trials like it do not count against {limit}"

    def drained(self) -> None:
        """Nothing runs any more."""
        self._running.clear()

    def _admits(self) -> bool:
        if self.max_cost_usd is None:
            return True
        if self.spent_usd >= self.max_cost_usd:
            return False
        expected = self._trial_cost
        if expected is None and self._known:
            expected = self._session_usd / self._known
        if expected is None:
            return not self._running or self.unknown > 0
        return self.spent_usd + expected * (len(self._running) + 1) <= self.max_cost_usd


class Batch:
    """What a queue hands out until it says to wait, and what would come next.

    Args:
        queue: The queue.
    """

    def __init__(self, queue: TrialQueue) -> None:
        self._queue = queue

    def __iter__(self) -> Batch:
        return self

    def __next__(self) -> Trial:
        trial = self._queue.take()
        if trial is None:
            raise StopIteration
        return trial

    def upcoming(self, count: int) -> list[Trial]:
        """The trials that would be handed out next."""
        return self._queue.upcoming(count)
