"""Rollouts in the order in which they end."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from types import TracebackType

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from agentix.models import Rollout, Trial
from agentix.runner.background import Background
from agentix.runner.pool import Pool
from agentix.runner.setting import Setting


class RolloutStream:
    """An async iterator of rollouts, and the context that they run in.

    `async with stream_rollouts(…) as stream:` ends everything when the block is left. A plain
    `async for rollout in stream_rollouts(…):` works too; leaving it early ends everything in the background.
    A reader that falls behind holds up the workers, so results never pile up.
    """

    def __init__(self, setting: Setting, trials: Iterable[Trial]) -> None:
        self._setting = setting
        self._trials = trials
        self._running: _Running | None = None
        self._finalizer: weakref.finalize[[_Running], RolloutStream] | None = None
        self._in_context = False

    @property
    def stopped(self) -> str | None:
        """Why the run ended before all its trials had started; `None` where it did not."""
        return None if self._running is None else self._running.pool.stopped

    @property
    def unreleased(self) -> tuple[str, ...]:
        """When the run has ended: ids of sandboxes that no trial used and that could not be deleted."""
        return () if self._running is None else self._running.pool.unreleased

    @property
    def said(self) -> tuple[str, ...]:
        """What providers have said of their sandboxes so far, each once although it holds for all of them."""
        return tuple(sorted(self._setting.told))

    def stop(self, reason: str) -> None:
        """Start no more trials; those that run go on to their end."""
        self._start().pool.stop(reason)

    async def aclose(self) -> None:
        """Cancel what runs and wait until nothing of it is left."""
        running, self._trials = self._running, ()
        if running is not None:
            if self._finalizer is not None:
                self._finalizer.detach()
            running.scope.cancel()
            with anyio.CancelScope(shield=True):
                await running.done.wait()
            running.received.close()

    async def __aenter__(self) -> RolloutStream:
        self._in_context = True
        self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> RolloutStream:
        return self

    async def __anext__(self) -> Rollout:
        running = self._start()
        try:
            return await running.received.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            await running.done.wait()
        except BaseException:
            if not self._in_context:
                await self.aclose()
            raise
        await self.aclose()
        error, running.error = running.error, None
        if error is not None:
            raise error
        raise StopAsyncIteration

    def _start(self) -> _Running:
        if self._running is None:
            self._running = _Running(self._setting, self._trials)
            # Nothing else tells that the loop over a stream was left without a context.
            self._finalizer = weakref.finalize(self, _Running.abandon, self._running)
            self._finalizer.atexit = False
        return self._running


class _Running:
    """A pool in the background and the queue that its results come through."""

    def __init__(self, setting: Setting, trials: Iterable[Trial]) -> None:
        self.sent: MemoryObjectSendStream[Rollout]
        self.received: MemoryObjectReceiveStream[Rollout]
        self.sent, self.received = anyio.create_memory_object_stream[Rollout](setting.n_concurrent)
        self.pool = Pool(setting, trials, self._deliver)
        self.scope = anyio.CancelScope()
        self.done = anyio.Event()
        self.error: Exception | None = None
        self.background = Background(self._main, name="agentix.rollouts")

    def abandon(self) -> None:
        """End everything, from whatever thread."""
        self.background.call(self._abandoned)

    def _abandoned(self) -> None:
        self.received.close()
        self.scope.cancel()

    async def _deliver(self, trial: Trial, rollout: Rollout) -> None:
        await self.sent.send(rollout)

    async def _main(self) -> None:
        try:
            with self.scope:
                await self.pool.run()
        except Exception as exc:
            self.error = exc
        finally:
            self.sent.close()
            self.done.set()
