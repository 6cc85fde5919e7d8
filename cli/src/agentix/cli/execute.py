"""Runs the trials of a plan and keeps their results, until all have ended or something says stop."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import anyio

from agentix.cli.beside import close_provider, keep_progress
from agentix.cli.board import Board
from agentix.cli.budget import TrialQueue
from agentix.cli.display import Display, event_line
from agentix.cli.plan import Plan
from agentix.cli.preflight import provider_problem
from agentix.cli.runlog import log
from agentix.cli.signals import SignalLatch
from agentix.cli.wording import reason
from agentix.errors import RunError
from agentix.models import Event, Failure, FailureCode, Rollout, Trial
from agentix.records import Record, ResumePlan, RunWriter
from agentix.registry import load
from agentix.runner import RolloutStream, stream_trials

if TYPE_CHECKING:
    from agentix.hooks import Hooks

_PROGRESS_S = 1.0

Transform = Callable[[Rollout, Trial], Rollout]


@dataclass
class Outcome:
    """How a session ended."""

    signal: int | None = None
    stopped: str | None = None
    """Why trials were not started, or ended before their time."""
    unreleased: tuple[str, ...] = ()
    """Ids of sandboxes that were made ready, used by no trial, and could not be deleted."""
    said: tuple[str, ...] = ()
    """What providers have said of their sandboxes, once for all of them."""


class Execution:
    """One session of a run.

    Args:
        plan: What was planned.
        resume: Which trials of it are to be run.
        writer: Keeps the results.
        board: Counts them.
        display: Shows them.
        hooks: Told about them.
        signals: Where SIGINT, SIGTERM and SIGHUP are heard.
        n_concurrent: How many trials run at once.
        transform: Changes a rollout before it is kept.
    """

    def __init__(
        self,
        plan: Plan,
        resume: ResumePlan,
        *,
        writer: RunWriter,
        board: Board,
        display: Display,
        hooks: Hooks,
        signals: SignalLatch,
        n_concurrent: int,
        transform: Transform | None = None,
    ) -> None:
        request = plan.request
        self.outcome = Outcome()
        self._plan = plan
        self._writer = writer
        self._board = board
        self._display = display
        self._hooks = hooks
        self._signals = signals
        self._n_concurrent = n_concurrent
        self._transform = transform
        self._queue = TrialQueue(
            resume.run,
            max_cost_usd=request.max_cost_usd,
            max_trial_cost_usd=request.limits.max_cost_usd,
            spent_usd=board.summary.cost_usd.total,
        )
        self._work = anyio.CancelScope()
        self._error: Exception | None = None

    async def run(self) -> Outcome:
        """Run everything.

        Raises:
            Exception: What the runner raised, such as a UsageError.
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_signals)
            tasks.start_soon(self._tick)
            tasks.start_soon(self._keep_progress)
            with self._work:
                try:
                    await self._run_trials()
                except Exception as error:
                    self._error = error
            await self._close_provider()
            tasks.cancel_scope.cancel()
        if self._error is not None:
            raise self._error
        self.outcome.stopped = self._queue.stopped
        self._board.state = "interrupted" if self.outcome.signal else "stopped" if self._queue.stopped else "finished"
        await keep_progress(self._writer, self._board.to_data())
        return self.outcome

    async def _close_provider(self) -> None:
        request = self._plan.request
        error = await close_provider(self._plan.provider, within_s=request.limits.teardown_s)
        if error is not None:
            self._say(f"the provider {request.provider.ref} did not end well: {error}")

    async def _run_trials(self) -> None:
        use = self._plan.request.provider
        make = partial(load, "provider", use.ref, use.options, where="--provider")
        problem = await provider_problem(use.ref, make)
        if problem is not None:
            self._queue.stop(problem)
        while self._queue and self._queue.stopped is None:
            stream = self._stream()
            async with stream:
                async for _ in stream:
                    pass  # every result was kept by _on_result
            self._queue.drained()
            self.outcome.unreleased += stream.unreleased
            self.outcome.said += tuple(note for note in stream.said if note not in self.outcome.said)
            if stream.stopped is not None:
                self._queue.stop(stream.stopped)

    def _stream(self) -> RolloutStream:
        plan, request = self._plan, self._plan.request
        return stream_trials(
            self._queue.batch(),
            dataset=plan.dataset,
            agent=plan.agent,
            provider=plan.provider,
            bundle=None if plan.manifest.bundle is None else plan.manifest.bundle.digest,
            n_concurrent=self._n_concurrent,
            prepare_ahead=request.prepare_ahead,
            limits=request.limits,
            timeouts=request.timeouts,
            max_attempts=request.max_attempts,
            stop_after=request.stop_after,
            on_result=self._on_result,
            on_event=self._on_event,
            trial_dir=self._writer.trial_dir,
            hooks=self._hooks,
        )

    async def _on_result(self, rollout: Rollout, trial: Trial) -> None:
        try:
            if self._transform is not None:
                rollout = self._transform(rollout, trial)
            record = await self._record(rollout, trial)
        except Exception as error:
            log.exception("%s: the result could not be kept", trial.trial_id)
            self._stop(f"the result of {trial.trial_id} could not be kept: {error}")
            return
        if record is None:
            return
        unseen = self._queue.finished(record)
        self._board.on_record(record)
        self._display.on_record(record, self._board)
        log.info("%s ended: %s", record.trial_id, reason(record))
        for note in record.notes:
            log.info("%s note: %s", record.trial_id, note)
        if unseen is not None:
            self._say(unseen)
        for note in self._hooks.call("agentix_record_written", record=record.to_data()):
            log.warning("%s", note)

    async def _record(self, rollout: Rollout, trial: Trial) -> Record | None:
        """Keep a result; one that is none because of what is in it is kept as a failure of who made it."""
        agent = self._plan.agent_name
        try:
            return await self._writer.record(rollout, trial, agent=agent)
        except (OSError, RunError):
            raise
        except Exception as error:
            log.exception("%s: what it gave is no result", trial.trial_id)
            message = f"what the trial gave is no result: {type(error).__name__}: {error}"
            failure = Failure(code=FailureCode.HOST_ERROR, message=message, detail="result", boundary="host")
            bare = Rollout(
                rollout.instance_id, error=message, trial_id=trial.trial_id, index=trial.index, failure=failure
            )
            return await self._writer.record(bare, trial, agent=agent)

    def _on_event(self, event: Event) -> None:
        self._board.on_event(event)
        self._display.on_event(event, self._board)
        level = {"attempt_failed": logging.WARNING, "phase_started": logging.DEBUG}.get(event.kind, logging.INFO)
        log.log(level, "%s", event_line(event))

    def _stop(self, why: str) -> None:
        if self._queue.stopped is None:
            self._queue.stop(why)
            self._say(f"stopping: {why}; running trials go on to their end")

    async def _watch_signals(self) -> None:
        async for number in self._signals:
            running = len(self._board.running)
            if self.outcome.signal is None:
                self.outcome.signal = number
                name = signal.Signals(number).name
                self._queue.stop(f"{name} was received")
                self._say(
                    f"{name}: no new trials; ending {running} that run and deleting their sandboxes. "
                    f"Results so far are kept; resume with {self._plan.resume_with}"
                )
                self._work.cancel()
            else:
                limit = self._plan.request.limits.teardown_s
                self._say(f"still deleting the sandboxes of {running} trials; each has at most {limit:g} s")

    async def _tick(self) -> None:
        while True:
            self._display.tick(self._board)
            await anyio.sleep(self._display.interval_s)

    async def _keep_progress(self) -> None:
        while True:
            await keep_progress(self._writer, self._board.to_data())
            await anyio.sleep(_PROGRESS_S)

    def _say(self, text: str) -> None:
        self._display.say(text)
        log.warning("%s", text)
