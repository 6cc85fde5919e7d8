"""Runs the trials of a session in two widths: few sandboxes, and many results that are looked after."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from agentix.api import Case, Event, Preparer, Record, Rollout, RunError, Trial
from agentix.cli.api import Breaker, TrialQueue, log, reason
from agentix.plugins.experiments.commands import CommandRunner
from agentix.plugins.experiments.engine.after_trial import AfterTrial
from agentix.plugins.experiments.engine.kept import kept_answer
from agentix.plugins.experiments.engine.live import LiveRun
from agentix.plugins.experiments.engine.resuming import Ended
from agentix.plugins.experiments.engine.work import Executor
from agentix.plugins.experiments.plan import PlannedTrial


class Trials:
    """One session's trials.

    Args:
        live: The run.
        executor: Runs a trial.
        runner: Runs configured commands.
        stop_after: How many infrastructure failures of one cause in a row are too many; `None` for never.
        max_cost_usd: What the whole run may cost.
        width: How many trials run at once.
    """

    def __init__(
        self,
        live: LiveRun,
        executor: Executor,
        runner: CommandRunner,
        *,
        stop_after: int | None,
        max_cost_usd: float | None,
        width: int,
    ) -> None:
        self._live = live
        self._executor = executor
        self._writer = live.writer
        self._board = live.board
        self._after = AfterTrial(live, runner)
        self._breaker = Breaker(stop_after)
        self._max_cost_usd = max_cost_usd
        self._width = width
        self._queue: TrialQueue = TrialQueue(())
        self._planned: dict[str, PlannedTrial] = {}
        self._images: dict[str, set[str]] = {}
        self._freed = anyio.Event()
        self._lost = False
        self._rescored: frozenset[str] = frozenset()
        self._preparer: Preparer | None = None
        self._send: MemoryObjectSendStream[Ended] | None = None

    @property
    def stopped(self) -> str | None:
        """Why not everything was done; where all trials had started, stopping made no difference."""
        return self._queue.stopped if self._lost or self._queue else None

    def stop(self, why: str) -> None:
        """Start no more trials; those that run go on to their end."""
        if self._queue.stopped is None:
            self._queue.stop(why)
            self._live.display.say(f"stopping: {why}; running trials go on to their end")
            log.warning("stopping: %s", why)
            if self._preparer is not None:
                self._preparer.stop()
        self._free()

    async def run(
        self,
        planned: Sequence[PlannedTrial],
        *,
        ended: Sequence[Ended] = (),
        rescored: frozenset[str] = frozenset(),
    ) -> None:
        """Run trials and the steps after them.

        Args:
            planned: The trials.
            ended: Trials that ended in an earlier session, of which only the steps are left.
            rescored: Trials whose scoring failed, so that what the agent had done may be scored again.
        """
        experiment = self._live.parts.submission.experiment
        self._rescored = rescored
        self._planned = {trial.trial_id: trial for trial in planned}
        self._queue = TrialQueue(
            (self._executor.trial(trial) for trial in planned),
            max_cost_usd=self._max_cost_usd,
            max_trial_cost_usd=experiment.limits.max_cost_usd,
            spent_usd=self._board.summary.cost_usd.total,
        )
        send, receive = anyio.create_memory_object_stream[Ended](math.inf)
        self._send = send
        wide = min(experiment.pipeline.concurrency, len(planned) + len(ended))
        try:
            async with anyio.create_task_group() as tasks:
                with receive:
                    for _ in range(wide):
                        tasks.start_soon(self._look_after, receive.clone(), name="agentix.steps")
                with send:
                    for trial in ended:
                        self._board.begin(trial.planned.trial_id, trial.planned.case.label, "waiting")
                        send.send_nowait(trial)
                    await self._run_all(min(self._width, len(planned)))
        finally:
            self._keep_images()

    async def _run_all(self, width: int) -> None:
        async with self._executor.preparing(upcoming=self._queue.upcoming, case_of=self._case_of) as preparer:
            self._preparer = preparer
            async with anyio.create_task_group() as workers:
                for _ in range(width):
                    workers.start_soon(self._work, name="agentix.trial")
        if preparer is not None:
            self._board.unreleased += preparer.unreleased

    def _case_of(self, trial: Trial) -> Case:
        return self._planned[trial.trial_id].case

    async def _work(self) -> None:
        while (planned := await self._next()) is not None:
            await self._trial(planned)

    async def _next(self) -> PlannedTrial | None:
        while True:
            for trial in self._queue.batch():
                return self._planned[trial.trial_id]
            if not self._queue or self._queue.stopped is not None:
                return None
            # The budget says to wait for what runs.
            await self._freed.wait()

    def _free(self) -> None:
        self._freed.set()
        self._freed = anyio.Event()

    async def _trial(self, planned: PlannedTrial) -> None:
        trial_id = planned.trial_id
        trial = self._executor.trial(planned)
        self._board.begin(trial_id, planned.case.label, self._executor.step.label)
        log.info("%s started", trial_id)
        self._live.told(self._live.hooks.call("agentix_trial_started", trial=trial))
        place = self._writer.layout.trial(trial_id).absolute()
        kept = await anyio.to_thread.run_sync(kept_answer, place) if trial_id in self._rescored else None
        rollout = await self._executor.run(planned, place, on_event=self._on_event, kept=kept)
        self._live.told(self._live.hooks.call("agentix_trial_finished", trial=trial, rollout=rollout))
        rollout, record = await self._keep(planned, rollout)
        if record is None:
            self._board.leave(trial_id)
            self._free()
            return
        if record.image_digest is not None:
            self._images.setdefault(planned.case.name, set()).add(record.image_digest)
        if (unseen := self._queue.finished(record)) is not None:
            self._live.say(unseen)
        self._free()
        self._board.move(trial_id, "waiting")
        assert self._send is not None
        # Where the run is being cancelled nobody looks after it any more; its steps are done on resume.
        with suppress(anyio.BrokenResourceError):
            self._send.send_nowait(Ended(planned, record))
        why = self._breaker.reason(rollout)
        if why is not None and self._queue:
            self.stop(why.removeprefix("stopped: "))

    async def _keep(self, planned: PlannedTrial, rollout: Rollout) -> tuple[Rollout, Record | None]:
        """Keep a result; one that is none because of what is in it is kept as a failure of who made it."""
        try:
            try:
                return rollout, await self._write(planned, rollout)
            except (OSError, RunError):
                raise
            except Exception as error:
                log.exception("%s: what it gave is no result", planned.trial_id)
                rollout = self._executor.broken(planned, error)
                return rollout, await self._write(planned, rollout)
        except Exception as error:
            log.exception("%s: the result could not be kept", planned.trial_id)
            self._lost = True
            self.stop(f"the result of {planned.trial_id} could not be kept: {error}")
            return rollout, None

    async def _write(self, planned: PlannedTrial, rollout: Rollout) -> Record | None:
        return await self._writer.trial_ended(
            rollout,
            self._executor.trial(planned),
            agent=planned.agent.id or planned.agent.name,
            case=planned.case.label,
            case_sha256=planned.case.sha256,
            llm_spec=None if planned.llm is None else planned.llm.name,
        )

    async def _look_after(self, receive: MemoryObjectReceiveStream[Ended]) -> None:
        with receive:
            async for ended in receive:
                record = await self._after.run(ended.record, ended.planned.case)
                try:
                    await self._writer.finish(record)
                except Exception as error:
                    self._board.leave(record.trial_id)
                    log.exception("%s: its line could not be written", record.trial_id)
                    self._lost = True
                    self.stop(f"the line of {record.trial_id} could not be written: {error}")
                    continue
                self._board.count(record)
                self._live.display.result(record, self._board)
                log.info("%s ended: %s", record.trial_id, reason(record))
                self._live.told(self._live.hooks.call("agentix_record_written", record=record.to_data()))

    def _keep_images(self) -> None:
        """Keep with the cases which images their trials ran in."""
        manifest, images = self._writer.manifest, self._images
        cases = tuple(
            case.model_copy(update={"image_digests": tuple(sorted({*case.image_digests, *images[case.name]}))})
            if case.name in images
            else case
            for case in manifest.cases
        )
        if cases != manifest.cases:
            self._writer.update(manifest.model_copy(update={"cases": cases}))

    def _on_event(self, event: Event) -> None:
        if event.kind == "phase_started":
            self._board.phase(event.trial_id, event.phase or "", event.attempt)
        elif event.kind in ("attempt_failed", "note"):
            log.warning("%s attempt %s: %s", event.trial_id, event.attempt, event.message)
