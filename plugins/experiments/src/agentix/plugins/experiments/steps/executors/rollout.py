"""The steps `rollout` and `local`: a trial in a sandbox of a provider, with any dataset and any agent."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, cast

from pydantic import BaseModel, ConfigDict

from agentix.api import (
    Boundary,
    ChoosesScoring,
    Dataset,
    Drives,
    EnvFailed,
    Failure,
    FailureCode,
    KeptAnswer,
    Rollout,
    Scope,
    StepContext,
    StepOutcome,
    TrialError,
    TrialWork,
    UsageError,
    rollout_one,
)
from agentix.cli.api import NoAgent, RescoredDataset


class NoInputs(BaseModel):
    """Everything is said by the experiment."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class RolloutStep:
    """Run the trial in sandboxes of the run's provider."""

    scopes: frozenset[Scope] = frozenset({Scope.PER_TRIAL})
    Inputs: type[BaseModel] = NoInputs
    executes: bool = True
    provider: ClassVar[str | None] = None
    """The only provider that it runs on; `None` for the run's."""

    async def run(self, ctx: StepContext, inputs: NoInputs) -> StepOutcome:
        """Run one trial; whatever happens in it is in the rollout."""
        work = ctx.work
        if work is None or work.provider is None:
            raise UsageError("this step runs a trial: it is the first of per_trial")
        try:
            # A key that is missing is found missing before there is a sandbox.
            if work.key is not None:
                await work.key()
            agent, dataset = work.load_agent(), work.load_dataset()
        except TrialError as error:
            return StepOutcome(rollout=_failed(work, error))
        except UsageError as error:
            return StepOutcome(rollout=_failed(work, EnvFailed(error.message, detail="plugin", hint=error.hint)))
        kept = work.kept if work.kept is not None and _can_score_again(dataset, work, work.kept) else None
        if kept is not None:
            name = work.trial.trial_id
            own = {} if kept.earlier is None else {name: kept.earlier}
            dataset, agent = RescoredDataset(dataset, {name: kept.patch}, own), NoAgent()
        rollout = await rollout_one(
            work.trial,
            dataset=dataset,
            agent=agent,
            provider=work.provider,
            preparer=work.preparer,
            n_concurrent=1,
            prepare_ahead=0,
            limits=work.limits,
            timeouts=work.timeouts,
            max_attempts=work.max_attempts,
            retry_on=work.retry_on,
            on_event=work.on_event,
            trial_dir=lambda _: work.directory,
        )
        return StepOutcome(rollout=rollout if kept is None else _scored_again(rollout, kept))


class LocalStep(RolloutStep):
    """Run the trial in sandboxes of the provider `local`, whatever the experiment names."""

    provider = "local"


def _can_score_again(dataset: Dataset, work: TrialWork, kept: KeptAnswer) -> bool:
    """Whether scoring needs nothing of the agent's sandbox but a patch, or what the dataset has kept of it."""
    if kept.earlier is not None and isinstance(dataset, Drives):
        return True
    if not kept.patch or getattr(dataset, "answer", "patch") != "patch":
        return False
    return not isinstance(dataset, ChoosesScoring) or dataset.scoring(dict(work.trial.instance)) == "fresh"


def _scored_again(rollout: Rollout, kept: KeptAnswer) -> Rollout:
    """What is known of the agent stays with the answer."""
    return replace(
        rollout,
        patch=kept.patch,
        ended=kept.ended,
        usage=kept.usage,
        agent_version=kept.agent_version,
        image_digest=rollout.image_digest or kept.image_digest,
        trajectory=kept.trajectory,
        notes=(*rollout.notes, "only scored again: the answer is that of the running before"),
    )


def _failed(work: TrialWork, error: TrialError) -> Rollout:
    failure = Failure(
        code=FailureCode(error.code),
        message=str(error),
        detail=error.detail,
        boundary=cast("Boundary", error.boundary or "host"),
        plugin=error.plugin,
    )
    trial = work.trial
    return Rollout(trial.instance_id, error=str(error), trial_id=trial.trial_id, index=trial.index, failure=failure)
