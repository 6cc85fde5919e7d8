"""From a planned trial to what an executor is given."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from agentix.api import (
    Case,
    Dataset,
    Event,
    Failure,
    FailureCode,
    KeptAnswer,
    Preparer,
    Rollout,
    Scope,
    StepContext,
    StepOutcome,
    Trial,
    TrialWork,
    preparing,
)
from agentix.cli.api import RUN_LABEL, TRIAL_LABEL
from agentix.plugins.experiments.cases import Intact
from agentix.plugins.experiments.commands import CommandRunner
from agentix.plugins.experiments.documents import AgentSpec, LLMSpec
from agentix.plugins.experiments.engine.models import llm_of, priced
from agentix.plugins.experiments.engine.parts import Parts
from agentix.plugins.experiments.plan import PlannedTrial
from agentix.plugins.experiments.steps import ResolvedStep
from agentix.plugins.experiments.steps.executors import run_command_executor

OnEvent = Callable[[Event], None]
Upcoming = Callable[[int], Sequence[Trial]]


UNCLEAN = " holds the model's key and could not be cleaned of it"
"""What the notes of a record say of such a file, after its name."""


def _nothing(count: int) -> Sequence[Trial]:
    return ()


class Executor:
    """Runs trials through the run's executor, and probes too.

    Args:
        parts: What the run is made of.
        runner: Runs configured commands.
        run_id: Of the run.
        run_dir: Its directory.
    """

    def __init__(self, parts: Parts, runner: CommandRunner, *, run_id: str, run_dir: Path) -> None:
        self.step: ResolvedStep = parts.executor
        self._parts = parts
        self._runner = runner
        self._run_id = run_id
        self._run_dir = run_dir
        experiment = parts.submission.experiment
        self._limits = experiment.limits.to_limits()
        self._max_attempts = experiment.max_attempts
        self._retry_on = retried(experiment.retry_on)
        self._preparer: Preparer | None = None
        self._intact = Intact()

    def trial(self, planned: PlannedTrial) -> Trial:
        """The trial as the runner and hooks know it."""
        case = planned.case
        return Trial(
            trial_id=planned.trial_id,
            instance=case.instance,
            index=planned.index,
            model=None if planned.llm is None else planned.llm.model,
            position=planned.position,
            labels={RUN_LABEL: self._run_id, TRIAL_LABEL: planned.trial_id},
        )

    @asynccontextmanager
    async def preparing(
        self, *, upcoming: Upcoming = _nothing, case_of: Callable[[Trial], Case] | None = None
    ) -> AsyncIterator[Preparer | None]:
        """Have sandboxes ready for what is run inside of this context, and for what comes next.

        Args:
            upcoming: The trials that come next.
            case_of: The case of such a trial.
        """
        parts = self._parts
        count = sandboxes_ahead(parts)
        if parts.provider is None or not count:
            yield None
            return

        def dataset_of(trial: Trial) -> Dataset:
            assert case_of is not None
            return parts.datasets.of(case_of(trial))

        async with preparing(
            parts.provider, count=count, upcoming=upcoming, dataset_of=dataset_of, limits=self._limits
        ) as preparer:
            self._preparer = preparer
            try:
                yield preparer
            finally:
                self._preparer = None

    async def run(
        self, planned: PlannedTrial, directory: Path, *, on_event: OnEvent, kept: KeptAnswer | None = None
    ) -> Rollout:
        """Run one trial; whatever happens is in the rollout.

        Args:
            planned: The trial.
            directory: Where it may write.
            on_event: Told what happens.
            kept: What is only to be scored again.
        """
        masks = self._parts.keys.masks

        def told(event: Event) -> None:
            on_event(masks.within(event))

        work = replace(self._work(planned, directory, on_event=told), kept=kept)
        ctx = StepContext(
            scope=Scope.PER_TRIAL,
            run_id=self._run_id,
            run_dir=self._run_dir,
            work_dir=directory,
            experiment=self._parts.submission.experiment.name,
            subject={"trial_id": planned.trial_id},
            case=planned.case,
            trial_dir=directory,
            work=work,
        )
        if not await self._intact.check(planned.case):
            return _changed(work.trial, planned.case)
        try:
            rollout = await self._execute(ctx, work)
        finally:
            # Whichever way it ended: what is in the directory stays there.
            with anyio.CancelScope(shield=True):
                unclean = await anyio.to_thread.run_sync(masks.clean_files, directory)
        if self._preparer is not None:
            # What failed before it had a sandbox has left the one that was made for it.
            await self._preparer.discard(work.trial)
        if masks:
            masked = await anyio.to_thread.run_sync(masks.within, rollout)
            # What it is called is its name in the run, also where a secret is the same word.
            rollout = replace(masked, trial_id=rollout.trial_id, instance_id=rollout.instance_id)
        notes = tuple(masks.text(f"{name}{UNCLEAN}") for name in unclean[:20])
        return priced(replace(rollout, notes=(*rollout.notes, *notes)) if notes else rollout, work.llm)

    async def _execute(self, ctx: StepContext, work: TrialWork) -> Rollout:
        step = self.step
        try:
            inputs = step.inputs(ctx)
            if step.step is not None:
                outcome: StepOutcome = await step.step.run(ctx, inputs)
            else:
                assert step.command is not None
                outcome = await run_command_executor(step.command, ctx, inputs, runner=self._runner)
            if outcome.rollout is None:
                raise TypeError(f"{step.plugin} ran a trial and gave no rollout")
        except Exception as error:
            return _broken(work.trial, step, error)
        rollout = outcome.rollout
        if rollout.trial_id == work.trial.trial_id and rollout.index == work.trial.index:
            return rollout
        return replace(rollout, trial_id=work.trial.trial_id, index=work.trial.index)

    def broken(self, planned: PlannedTrial, error: Exception) -> Rollout:
        """The result of a trial whose executor did not keep to its contract."""
        return _broken(self.trial(planned), self.step, error)

    def _work(self, planned: PlannedTrial, directory: Path, *, on_event: OnEvent) -> TrialWork:
        parts, llm = self._parts, planned.llm
        return TrialWork(
            trial=self.trial(planned),
            case=planned.case,
            agent_use=parts.agents.use(planned.agent),
            load_agent=partial(parts.agents.load, planned.agent, llm, where=f"agent {planned.agent.name}"),
            load_dataset=partial(parts.datasets.of, planned.case),
            provider=parts.provider,
            llm=None if llm is None else llm_of(llm),
            key=None if llm is None else partial(parts.keys.get, llm),
            limits=self._limits,
            max_attempts=self._max_attempts,
            retry_on=self._retry_on,
            preparer=self._preparer,
            directory=directory,
            on_event=on_event,
        )


def sandboxes_ahead(parts: Parts) -> int:
    """How many sandboxes are made ready ahead of need."""
    experiment = parts.submission.experiment
    if experiment.prepare_ahead is not None:
        return experiment.prepare_ahead
    # Where creating a sandbox costs next to nothing, one that is ready only costs memory.
    return max(1, experiment.concurrency // 4) if getattr(parts.provider, "prepares_ahead", False) is True else 0


def retried(words: tuple[str, ...] | None) -> frozenset[FailureCode]:
    """The failure codes that are worth another attempt."""
    if words is None:
        return frozenset(code for code in FailureCode if code.is_retried)
    return frozenset(FailureCode(word) for word in words)


def probe_trial(case: Case, agent: str, *, index: int, llm: LLMSpec | None = None) -> PlannedTrial:
    """A trial that is evidence about a case and no result of the run."""
    return PlannedTrial(f"probe-{agent}-{index}", case, AgentSpec(name=agent), llm, index, 0)


def _changed(trial: Trial, case: Case) -> Rollout:
    message = f"the snapshot of {case.label} is not what its hash says any more: something wrote to {case.directory}"
    failure = Failure(
        code=FailureCode.ENV_FAILED,
        message=f"{message}; the same --id with --retry infra has it made anew",
        detail="case_changed",
    )
    return Rollout(
        instance_id=trial.instance_id,
        error=message,
        trial_id=trial.trial_id,
        index=trial.index,
        failure=failure,
    )


def _broken(trial: Trial, step: ResolvedStep, error: Exception) -> Rollout:
    import traceback

    message = f"{type(error).__name__}: {error}"
    failure = Failure(
        code=FailureCode.HOST_ERROR,
        message=message,
        detail="executor",
        boundary="step",
        plugin=step.plugin,
        traceback="".join(traceback.format_exception(error)),
    )
    return Rollout(
        trial.instance_id,
        error=f"HOST_ERROR in {step.plugin}: {message}",
        trial_id=trial.trial_id,
        index=trial.index,
        failure=failure,
    )
