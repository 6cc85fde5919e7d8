"""One session of a run, in its event loop: signals, progress, and a report whichever way it ends."""

from __future__ import annotations

import signal
from typing import Protocol

import anyio

from agentix.api import AgentixError, RunError, UsageError
from agentix.cli.api import SignalLatch, close_provider, keep_progress, log, plural
from agentix.plugins.experiments.commands import CommandRunner
from agentix.plugins.experiments.engine.closing import Closing
from agentix.plugins.experiments.engine.live import LiveRun
from agentix.plugins.experiments.engine.outcome import Outcome

_PROGRESS_S = 1.0
_GRACE_S = 30.0
_SHORT_GRACE_S = 3.0
"""What is left of the grace once a second signal came."""


class Flows(Protocol):
    """What a session does, in order."""

    async def run(self, runner: CommandRunner, closing: Closing) -> str | None:
        """Do it, and say why not everything was done."""
        ...


async def run_session(flow: Flows, live: LiveRun, signals: SignalLatch) -> Outcome:
    """Run a flow, and what has to happen beside and after it.

    Args:
        flow: What it does.
        live: The run.
        signals: Where SIGINT, SIGTERM and SIGHUP are heard.

    Raises:
        AgentixError: Nothing was run, because something is wrong with what was asked for.
    """
    return await _Session(flow, live, signals).run()


class _Session:
    def __init__(self, flow: Flows, live: LiveRun, signals: SignalLatch) -> None:
        self.outcome = live.outcome
        self._flow = flow
        self._live = live
        self._closing = Closing(live)
        self._writer = live.writer
        self._board = live.board
        self._signals = signals
        self._work = anyio.CancelScope()
        self._close = anyio.CancelScope()
        self._error: Exception | None = None

    async def run(self) -> Outcome:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_signals)
            tasks.start_soon(self._tick)
            try:
                parts = self._live.parts
                inherit = parts.submission.commands.inherit_env
                async with CommandRunner(inherit_env=inherit, masks=parts.keys.masks) as runner:
                    await self._guarded(runner)
            except Exception as error:
                self._error = error
            await self._close_provider()
            tasks.cancel_scope.cancel()
        self._board.doing = ""
        if self.outcome.began or self._writer.earlier is None:
            self._board.state = self._end_state
            await keep_progress(self._writer, self._board.to_data())
        if self._error is not None:
            raise self._error
        return self.outcome

    @property
    def _end_state(self) -> str:
        if self.outcome.signal is not None:
            return "interrupted"
        return "stopped" if self.outcome.stopped or self._error is not None else self.outcome.rest

    async def _guarded(self, runner: CommandRunner) -> None:
        """Do everything; whichever way it ends, a run that has begun gets its report."""
        why: str | None = None
        with self._work:
            try:
                why = await self._flow.run(runner, self._closing)
            except Exception as raised:
                error = _inner(raised)
                full = isinstance(error, RunError)
                asked = isinstance(error, UsageError) and not full
                if not self.outcome.began or (asked and self._writer.earlier is not None):
                    raise
                why = error.message if isinstance(error, AgentixError) else f"{type(error).__name__}: {error}"
                log.exception("the run ended with an error")
                # Where its directory cannot be written, that is how the run ended and no fault of ours.
                self._error = None if full else error
        if self.outcome.signal is not None:
            why = f"interrupted by {signal.Signals(self.outcome.signal).name}"
        self.outcome.stopped = why
        if why is None or not self.outcome.began:
            return
        self._board.state = "closing"
        with self._close:
            self._close.deadline = anyio.current_time() + _GRACE_S
            try:
                await self._closing.report(runner, incomplete=why)
            except AgentixError as error:
                # Why the run ended is what its user has to know; this is the same trouble or a second one.
                self._live.say(f"the report could not be written: {error.message}")

    async def _close_provider(self) -> None:
        grace = _GRACE_S if self.outcome.signal is None else _SHORT_GRACE_S
        error = await close_provider(self._live.parts.provider, within_s=grace)
        if error is not None:
            self._live.say(f"the provider did not end well: {error}")

    async def _watch_signals(self) -> None:
        async for number in self._signals:
            name = signal.Signals(number).name
            if self.outcome.signal is None:
                self.outcome.signal = number
                running = plural(len(self._board.in_flight), "trial")
                ending = f"no new trials; ending {running} and cleaning up. Results so far are kept"
                if not self.outcome.planned:
                    ending = "ending what runs, and cleaning up"
                self._live.say(f"{name}: {ending}; resume with: {self.outcome.resume_with}")
                self._work.cancel()
            else:
                self._live.say(f"{name} again: the report has {_SHORT_GRACE_S:g} s, sandboxes are still deleted")
                self._close.deadline = min(self._close.deadline, anyio.current_time() + _SHORT_GRACE_S)

    async def _tick(self) -> None:
        last = 0.0
        while True:
            self._live.display.tick(self._board)
            now = anyio.current_time()
            if (self.outcome.began or self._writer.earlier is None) and now - last >= _PROGRESS_S:
                last = now
                await keep_progress(self._writer, self._board.to_data())
            await anyio.sleep(self._live.display.interval_s)


def _inner(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
