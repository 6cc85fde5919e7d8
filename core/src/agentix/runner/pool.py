"""Runs trials side by side, each pulled only when there is room for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from agentix.models import Rollout, Trial
from agentix.runner.ahead import Ahead
from agentix.runner.attempts import run_trial
from agentix.runner.breaker import Breaker
from agentix.runner.full_collections import rarer
from agentix.runner.pacing import Pacer
from agentix.runner.setting import Setting
from agentix.runner.upcoming import Upcoming

_PACED_FROM = 100
"""From so many trials at once on, their own work can hold up the event loop."""


class Pool:
    """At most `n_concurrent` workers, each of which runs one trial after the other.

    Args:
        setting: What the trials share.
        trials: Pulled lazily, from one place.
        deliver: Given each rollout when it is kept; the slot is free when it returns.
        ahead: Makes sandboxes ready for these trials and others; by default for these only.
    """

    def __init__(
        self,
        setting: Setting,
        trials: Iterable[Trial],
        deliver: Callable[[Trial, Rollout], Awaitable[None]],
        *,
        ahead: Ahead | None = None,
    ) -> None:
        self.stopped: str | None = None
        """Why no more trials were started before all had been."""
        self._setting = setting
        self.unreleased: tuple[str, ...] = ()
        """Sandboxes that were made ready, used by no trial, and could not be deleted."""
        self._upcoming = Upcoming(trials)
        self._ahead: Ahead | None = None
        self._shared = ahead
        self._deliver = deliver
        self._breaker = Breaker(setting.stop_after)
        self._error: Exception | None = None
        self._workers = 0
        self._done = anyio.Event()
        self._pacer = Pacer() if setting.n_concurrent >= _PACED_FROM else None

    def stop(self, reason: str) -> None:
        """Start no more trials; those that run go on to their end."""
        if self.stopped is None:
            self.stopped = reason
        self._end_pulling()

    async def run(self) -> None:
        """Run all trials.

        Raises:
            Exception: What the source of the trials or `on_result` raised, after the running trials have ended.
        """
        await self._setting.prepare()
        with rarer(self._setting.n_concurrent):
            await self._run()

    async def _run(self) -> None:
        async with anyio.create_task_group() as tasks:
            if self._setting.feed.watched:
                tasks.start_soon(self._setting.feed.run)
            if self._pacer is not None:
                tasks.start_soon(self._pacer.run)
            self._workers = 1
            self._ahead = ahead = Ahead(
                self._setting.roles.provider,
                budget=self._setting.prepare_ahead,
                setting_of=lambda _: self._setting,
                upcoming=self._upcoming.look,
                tasks=tasks,
            )
            tasks.start_soon(self._work, tasks, self._shared or ahead, name="agentix.worker")
            await self._done.wait()
            await ahead.drain()
            self.unreleased = tuple(ahead.unreleased)
            await self._setting.feed.delivered()
            tasks.cancel_scope.cancel()
        if self._error is not None:
            raise self._error

    async def _work(self, tasks: TaskGroup, ahead: Ahead) -> None:
        try:
            while (trial := await self._next()) is not None:
                # Each worker starts the next one, so that thousands do not all start in one turn of the loop.
                if self._workers < self._setting.n_concurrent and self._upcoming.more:
                    self._workers += 1
                    tasks.start_soon(self._work, tasks, ahead, name="agentix.worker")
                rollout = await run_trial(self._setting, trial, tasks, ahead)
                reason = self._breaker.reason(rollout)
                if reason is not None:
                    self.stop(reason)
                try:
                    await self._setting.keep(rollout, trial)
                except Exception as exc:
                    self._fail(exc)
                await self._deliver(trial, rollout)
        finally:
            self._workers -= 1
            if self._workers == 0:
                self._done.set()

    async def _next(self) -> Trial | None:
        # A worker that begins when everything is being ended would begin the next one before it hears of that.
        await anyio.lowlevel.checkpoint_if_cancelled()
        if self._pacer is not None:
            await self._pacer.admitted()
        try:
            return self._upcoming.take()
        except Exception as exc:
            self._fail(exc)
        return None

    def _fail(self, exc: Exception) -> None:
        if self._error is None:
            self._error = exc
        self._end_pulling()

    def _end_pulling(self) -> None:
        self._upcoming.end()
        if self._ahead is not None:
            self._ahead.stop()
