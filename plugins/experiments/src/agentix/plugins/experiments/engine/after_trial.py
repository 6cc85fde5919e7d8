"""All steps after one trial, in their order, and what they leave in its record."""

from __future__ import annotations

from functools import partial

import anyio.to_thread

from agentix.api import Case, Record
from agentix.cli.api import log
from agentix.plugins.experiments.commands import CommandRunner
from agentix.plugins.experiments.engine.live import LiveRun
from agentix.plugins.experiments.engine.reactions import with_failure, with_step
from agentix.plugins.experiments.engine.trial_steps import TrialSteps


class AfterTrial:
    """Does what is to be done with trials that have ended.

    Args:
        live: The run.
        runner: Runs configured commands.
    """

    def __init__(self, live: LiveRun, runner: CommandRunner) -> None:
        self._live = live
        self._todo = live.parts.pipeline.per_trial
        self._steps = TrialSteps(
            live.publication,
            runner=runner,
            layout=live.writer.layout,
            run_id=live.board.run_id,
            experiment=live.board.experiment,
        )

    async def run(self, record: Record, case: Case) -> Record:
        """Do all steps of a trial.

        Returns:
            The record that gets its line.
        """
        record = await self._run(record, case)
        if record.dropped and self._live.publication.redact is not None:
            record = await self._withdrawn(record)
        if self._todo:
            await self._steps.clean(record.trial_id)
        return record

    async def _run(self, record: Record, case: Case) -> Record:
        made = list[str]()
        say = partial(log.info, "%s: %s", record.trial_id)
        for step in self._todo:
            self._live.board.move(record.trial_id, step.label)
            try:
                result = await self._steps.run(step, record, case, made=made, say=say)
            except OSError as error:
                return with_failure(record, step.label, f"its directory could not be made: {error}")
            if result is None:
                continue
            record = with_step(record, result)
            if step.redacts and result.outcome is not None:
                record = record.model_copy(update={"redaction": dict(result.outcome.redaction)})
            log.info("%s step %s: %s %s", record.trial_id, step.label, result.verdict, result.message)
            told = self._live.hooks.call(
                "agentix_step_finished",
                scope="per_trial",
                step=step.label,
                unit=record.trial_id,
                verdict=result.verdict,
                message=result.message,
            )
            self._live.told(told)
            if result.stops or result.dropped:
                break
        return record

    async def _withdrawn(self, record: Record) -> Record:
        """Remove what was published of a trial that is dropped."""
        try:
            await anyio.to_thread.run_sync(self._live.publication.forget, [record.trial_id])
        except OSError as error:
            # Nothing of it is shipped before that was tried again.
            return record.model_copy(update={"notes": (*record.notes, f"could not be withdrawn: {error.strerror}")})
        return record
