"""The entry points: run agents over instances, in input order, as they end, or one."""

from __future__ import annotations

import asyncio
import functools
import sys
import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import anyio
import anyio.from_thread

from agentix.interfaces import Agent, Dataset, SandboxProvider
from agentix.models import FailureCode, Limits, Phase, Rollout, TimeoutRule, Trial
from agentix.runner.feed import OnEvent
from agentix.runner.plan import checked_id, plan, planned
from agentix.runner.pool import Pool
from agentix.runner.preparer import Preparer
from agentix.runner.setting import RETRIED, OnResult, Setting, TrialDir, at_least_one, instances_of
from agentix.runner.stream import RolloutStream

if TYPE_CHECKING:
    from agentix.hooks import Hooks


class SharedOptions(TypedDict, total=False):
    """What every entry point takes besides the plugins; `run_rollouts` documents each."""

    bundle: str | None
    n_concurrent: int
    prepare_ahead: int | None
    limits: Limits | None
    timeouts: Mapping[Phase, TimeoutRule] | None
    max_attempts: int
    retry_on: Iterable[FailureCode | str]
    stop_after: int | None
    on_result: OnResult | None
    on_event: OnEvent | None
    trial_dir: TrialDir | None
    hooks: Hooks | None


class RunOptions(SharedOptions, total=False):
    """What `run_rollouts` and `stream_rollouts` take besides the plugins."""

    model: str | None
    trials: int


async def run_rollouts(
    *,
    dataset: Dataset,
    agent: Agent,
    provider: SandboxProvider,
    bundle: str | None = None,
    model: str | None = None,
    n_concurrent: int = 8,
    prepare_ahead: int | None = None,
    trials: int = 1,
    limits: Limits | None = None,
    timeouts: Mapping[Phase, TimeoutRule] | None = None,
    max_attempts: int = 1,
    retry_on: Iterable[FailureCode | str] = RETRIED,
    stop_after: int | None = None,
    on_result: OnResult | None = None,
    on_event: OnEvent | None = None,
    trial_dir: TrialDir | None = None,
    hooks: Hooks | None = None,
) -> list[Rollout]:
    """Run an agent over every instance of a dataset.

    One failure never ends the others: it is told by `Rollout.failure`, and by `Rollout.error` in one line.

    Args:
        dataset: Yields the instances, read lazily, and sets up and scores each.
        agent: Solves one instance in a sandbox.
        provider: Makes the sandboxes.
        bundle: Mounted in every sandbox, also where the dataset names another: `name:tag`, `sha256:…`, or the path
            of an exported one.
        model: Handed to the agent.
        n_concurrent: How many trials run at once, 8 by default.
        prepare_ahead: How many sandboxes are made ready at a time for the next trials, and for scoring while agents
            work; 0 for none. By default a quarter of `n_concurrent`, at least 1, where the provider says that
            creating takes long, else 0.
        trials: How many of each instance, 1 by default.
        limits: Win over the dataset's own limits where given explicitly.
        timeouts: How each phase's limit is changed, the instance's own limit included.
        max_attempts: How often a trial is tried, 1 by default.
        retry_on: The failure codes that are worth another attempt; HOST_ERROR and VERIFIER_ERROR by default.
        stop_after: Start no more trials after so many failures of the infrastructure in a row that have
            one cause; never by default.
        on_result: Called, and awaited where it is async, with rollout and trial before the slot of a
            trial is free. What it raises is raised here, once the running trials have ended.
        on_event: Called with each event; what it raises is a note.
        trial_dir: Gives a trial's directory on the host; attempt n keeps its files in `attempts/<n>` of it.
        hooks: Told when trials start and finish.

    Returns:
        The rollouts in input order, those of one instance next to each other.

    Raises:
        UsageError: An argument is not valid, the bundle cannot be used, or the dataset is malformed; with a
            malformed instance, after the running trials have ended.
    """
    at_least_one(trials, "trials")
    setting = Setting(
        dataset=dataset,
        agent=agent,
        provider=provider,
        bundle=bundle,
        n_concurrent=n_concurrent,
        prepare_ahead=prepare_ahead,
        limits=limits,
        timeouts=timeouts,
        max_attempts=max_attempts,
        retry_on=retry_on,
        stop_after=stop_after,
        on_result=on_result,
        on_event=on_event,
        trial_dir=trial_dir,
        hooks=hooks,
    )
    done: dict[int, Rollout] = {}

    async def deliver(trial: Trial, rollout: Rollout) -> None:
        done[trial.position] = rollout

    await Pool(setting, plan(instances_of(dataset), trials=trials, model=model), deliver).run()
    return [done[position] for position in sorted(done)]


def run_rollouts_sync(
    *, dataset: Dataset, agent: Agent, provider: SandboxProvider, **options: Unpack[RunOptions]
) -> list[Rollout]:
    """`run_rollouts` for scripts and notebooks: also works where an event loop runs already."""
    run = functools.partial(run_rollouts, dataset=dataset, agent=agent, provider=provider, **options)
    if not _in_event_loop():
        return anyio.run(run)
    with anyio.from_thread.start_blocking_portal() as portal:
        waiting = portal.start_task_soon(run)
        try:
            return waiting.result()
        except BaseException:
            waiting.cancel()
            raise


def stream_rollouts(
    *,
    dataset: Dataset,
    agent: Agent,
    provider: SandboxProvider,
    model: str | None = None,
    trials: int = 1,
    **options: Unpack[SharedOptions],
) -> RolloutStream:
    """The rollouts of `run_rollouts` in the order in which they end; it takes the same arguments.

    Memory does not grow with the number of instances.
    """
    at_least_one(trials, "trials")
    setting = Setting(dataset=dataset, agent=agent, provider=provider, **options)
    return RolloutStream(setting, plan(instances_of(dataset), trials=trials, model=model))


def stream_trials(
    trials: Iterable[Trial],
    *,
    dataset: Dataset,
    agent: Agent,
    provider: SandboxProvider,
    **options: Unpack[SharedOptions],
) -> RolloutStream:
    """Run trials that were planned elsewhere; the rollouts come in the order in which they end.

    Args:
        trials: Pulled lazily; each names its instance and its model.
        dataset: Sets the instances up and scores them.
        agent: Solves one instance in a sandbox.
        provider: Makes the sandboxes.
        **options: Those of `run_rollouts` but `model` and `trials`.
    """
    return RolloutStream(Setting(dataset=dataset, agent=agent, provider=provider, **options), trials)


async def rollout_one(
    instance: Mapping[str, Any] | Trial,
    *,
    dataset: Dataset,
    agent: Agent,
    provider: SandboxProvider,
    model: str | None = None,
    preparer: Preparer | None = None,
    **options: Unpack[SharedOptions],
) -> Rollout:
    """Run one trial.

    Args:
        instance: An instance of the dataset, or a planned trial.
        dataset: Sets the instance up and scores it.
        agent: Solves it.
        provider: Makes the sandboxes.
        model: Handed to the agent; a planned trial names its own.
        preparer: Makes sandboxes ready for this trial and for others, instead of `prepare_ahead`.
        **options: Those of `run_rollouts` but `trials`.
    """
    if isinstance(instance, Trial):
        trial = instance
    else:
        checked_id(instance, 0)
        trial = planned(instance, model=model, run_id=uuid.uuid4().hex[:12])
    setting = Setting(dataset=dataset, agent=agent, provider=provider, **options)
    done: list[Rollout] = []

    async def deliver(trial: Trial, rollout: Rollout) -> None:
        done.append(rollout)

    await Pool(setting, [trial], deliver, ahead=None if preparer is None else preparer.ahead).run()
    return done[0]


def _in_event_loop() -> bool:
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return True
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
