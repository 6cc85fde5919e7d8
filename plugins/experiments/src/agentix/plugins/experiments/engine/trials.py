"""Runs the trials of a session in two widths: few sandboxes, and many results that are looked after."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from agentix.api import Case, Event, Hooks, Preparer, Record, Rollout, RunError, Trial
from agentix.cli.api import Breaker, ExperimentWriter, TrialQueue, log, reason
from agentix.plugins.experiments.engine.kept import kept_answer
from agentix.plugins.experiments.engine.parts import Parts
from agentix.plugins.experiments.engine.publication import Publication
from agentix.plugins.experiments.engine.reactions import with_failure, with_step
from agentix.plugins.experiments.engine.trial_steps import TrialSteps
from agentix.plugins.experiments.engine.work import Executor
from agentix.plugins.experiments.plan import PlannedTrial
from agentix.plugins.experiments.progress import Board, Display


@dataclass(frozen=True)
class Ended:
    """A trial whose trial.json is on the disk and whose steps are still to be done."""

    planned: PlannedTrial
    record: Record


class Trials:
    """One session's trials.

    Args:
        parts: What the run is made of.
        executor: Runs a trial.
        writer: Keeps what comes of it.
        board: Counts.
        display: Shows.
        hooks: Told about it.
        steps: Runs the steps after a trial.
        publication: What of the run may leave this machine.
        stop_after: How many infrastructure failures of one cause in a row are too many; `None` for never.
        max_cost_usd: What the whole run may cost.
    """

    def __init__(
        self,
        parts: Parts,
        *,
        executor: Executor,
        writer: ExperimentWriter,
        board: Board,
        display: Display,
        hooks: Hooks,
        steps: TrialSteps,
        publication: Publication,
        stop_after: int | None,
        max_cost_usd: float | None,
    ) -> None:
        self.images: dict[str, set[str]] = {}
        """Digests of the images that trials of a case ran in."""
        self._parts = parts
        self._executor = executor
        self._writer = writer
        self._board = board
        self._display = display
        self._hooks = hooks
        self._after = steps
        self._publication = publication
        self._breaker = Breaker(stop_after)
        self._max_cost_usd = max_cost_usd
        self._queue: TrialQueue = TrialQueue(())
        self._planned: dict[str, PlannedTrial] = {}
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
            self._display.say(f"stopping: {why}; running trials go on to their end")
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
        width: int,
    ) -> None:
        """Run trials and the steps after them.

        Args:
            planned: The trials.
            ended: Trials that ended in an earlier session, of which only the steps are left.
            rescored: Trials whose scoring failed, so that what the agent had done may be scored again.
            width: How many run at once.
        """
        self._rescored = rescored
        self._planned = {trial.trial_id: trial for trial in planned}
        self._queue = TrialQueue(
            (self._executor.trial(trial) for trial in planned),
            max_cost_usd=self._max_cost_usd,
            max_trial_cost_usd=self._parts.submission.experiment.limits.max_cost_usd,
            spent_usd=self._board.summary.cost_usd.total,
        )
        send, receive = anyio.create_memory_object_stream[Ended](math.inf)
        self._send = send
        wide = min(self._parts.submission.experiment.pipeline.concurrency, len(planned) + len(ended))
        async with anyio.create_task_group() as tasks:
            with receive:
                for _ in range(wide):
                    tasks.start_soon(self._look_after, receive.clone(), name="agentix.steps")
            with send:
                for trial in ended:
                    self._board.begin(trial.planned.trial_id, trial.planned.case.label, "waiting")
                    send.send_nowait(trial)
                await self._run_all(min(width, len(planned)))

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
        self._tell(self._hooks.call("agentix_trial_started", trial=trial))
        place = self._writer.layout.trial(trial_id).absolute()
        kept = await anyio.to_thread.run_sync(kept_answer, place) if trial_id in self._rescored else None
        rollout = await self._executor.run(planned, place, on_event=self._on_event, kept=kept)
        self._tell(self._hooks.call("agentix_trial_finished", trial=trial, rollout=rollout))
        rollout, record = await self._keep(planned, rollout)
        if record is None:
            self._board.leave(trial_id)
            self._free()
            return
        if record.image_digest is not None:
            self.images.setdefault(planned.case.name, set()).add(record.image_digest)
        if (unseen := self._queue.finished(record)) is not None:
            self._display.say(unseen)
            log.warning("%s", unseen)
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
                record = await self._steps(ended)
                if self._parts.pipeline.per_trial:
                    await self._after.clean(record.trial_id)
                try:
                    await self._writer.finish(record)
                except Exception as error:
                    self._board.leave(record.trial_id)
                    log.exception("%s: its line could not be written", record.trial_id)
                    self._lost = True
                    self.stop(f"the line of {record.trial_id} could not be written: {error}")
                    continue
                self._board.count(record)
                self._display.result(record, self._board)
                log.info("%s ended: %s", record.trial_id, reason(record))
                self._tell(self._hooks.call("agentix_record_written", record=record.to_data()))

    async def _steps(self, ended: Ended) -> Record:
        record, made = ended.record, list[str]()
        say = partial(log.info, "%s: %s", record.trial_id)
        for step in self._parts.pipeline.per_trial:
            self._board.move(record.trial_id, step.label)
            try:
                result = await self._after.run(step, record, ended.planned.case, made=made, say=say)
            except OSError as error:
                return with_failure(record, step.label, f"its directory could not be made: {error}")
            if result is None:
                continue
            record = with_step(record, result)
            if step.redacts and result.outcome is not None:
                record = record.model_copy(update={"redaction": dict(result.outcome.redaction)})
            log.info("%s step %s: %s %s", record.trial_id, step.label, result.verdict, result.message)
            self._tell(
                self._hooks.call(
                    "agentix_step_finished",
                    scope="per_trial",
                    step=step.label,
                    unit=record.trial_id,
                    verdict=result.verdict,
                    message=result.message,
                )
            )
            if result.stops or result.dropped:
                break
        if record.dropped and self._publication.redact is not None:
            record = await self._withdrawn(record)
        return record

    async def _withdrawn(self, record: Record) -> Record:
        """Remove what was published of a trial that is dropped."""
        try:
            await anyio.to_thread.run_sync(self._publication.forget, [record.trial_id])
        except OSError as error:
            # Nothing of it is shipped before that was tried again.
            return record.model_copy(update={"notes": (*record.notes, f"could not be withdrawn: {error.strerror}")})
        return record

    def _on_event(self, event: Event) -> None:
        if event.kind == "phase_started":
            self._board.phase(event.trial_id, event.phase or "", event.attempt)
        elif event.kind in ("attempt_failed", "note"):
            log.warning("%s attempt %s: %s", event.trial_id, event.attempt, event.message)

    def _tell(self, notes: Sequence[str]) -> None:
        for note in notes:
            log.warning("%s", note)
