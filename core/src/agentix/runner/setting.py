"""What all trials of a run share, checked before the first one starts."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentix.errors import ConfigError, UsageError
from agentix.interfaces import Agent, Dataset, SandboxProvider
from agentix.models import FailureCode, Limits, Phase, Rollout, TimeoutRule, Trial
from agentix.runner.feed import Feed, OnEvent
from agentix.runner.roles import Roles

if TYPE_CHECKING:
    from agentix.hooks import Hooks

TrialDir = Callable[[Trial], Path]
OnResult = Callable[[Rollout, Trial], Awaitable[None] | None]

RETRIED = frozenset(code for code in FailureCode if code.is_retried)
"""The codes that are retried by default."""


class Setting:
    """The plugins, the limits and the observers of a run; `run_rollouts` documents the arguments.

    Raises:
        UsageError: An argument is not valid.
    """

    def __init__(
        self,
        *,
        dataset: Dataset,
        agent: Agent,
        provider: SandboxProvider,
        bundle: str | None = None,
        n_concurrent: int = 8,
        prepare_ahead: int | None = None,
        limits: Limits | None = None,
        timeouts: Mapping[Phase, TimeoutRule] | None = None,
        max_attempts: int = 1,
        retry_on: Iterable[FailureCode | str] = RETRIED,
        stop_after: int | None = None,
        on_result: OnResult | None = None,
        on_event: OnEvent | None = None,
        trial_dir: TrialDir | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        self.bundle = bundle
        self.roles = Roles(dataset, agent, provider)
        self.n_concurrent = at_least_one(n_concurrent, "n_concurrent")
        self.prepare_ahead = _ahead(prepare_ahead, provider=provider, n_concurrent=n_concurrent)
        self.max_attempts = at_least_one(max_attempts, "max_attempts")
        self.stop_after = None if stop_after is None else at_least_one(stop_after, "stop_after")
        self.limits = limits
        self.timeouts = dict(timeouts or {})
        self.retry_on = frozenset(_retried(code) for code in retry_on)
        self.trial_dir = trial_dir
        self.hooks = hooks
        self.on_event = on_event
        self.feed = Feed(on_event)
        self.told: set[str] = set()
        """What providers have said in this run, so that it is said once."""
        self._on_result = on_result

    async def prepare(self) -> None:
        """Look once at what all trials use: whatever a name points at later, they all get the same bundle.

        Raises:
            BundleError: The bundle is unknown, damaged, or of another platform or Python.
        """
        if self.bundle is not None:
            from agentix.bundle import resolve_bundle

            self.bundle = (await resolve_bundle(self.bundle)).digest

    async def keep(self, rollout: Rollout, trial: Trial) -> None:
        """Hand a result to whoever keeps it; the trial is not over before this returns."""
        if self._on_result is not None:
            waiting = self._on_result(rollout, trial)
            if inspect.isawaitable(waiting):
                await waiting


def instances_of(dataset: Dataset) -> Iterable[Mapping[str, Any]]:
    """The dataset's instances, not yet read.

    Raises:
        UsageError: It has none to give.
    """
    if not callable(getattr(dataset, "instances", None)):
        raise UsageError(f"the dataset {type(dataset).__qualname__} has no instances()")
    return _instances(dataset)


def _instances(dataset: Dataset) -> Iterator[Mapping[str, Any]]:
    yield from dataset.instances()


def at_least_one(value: int, where: str) -> int:
    """The value, if it is a whole number from 1.

    Raises:
        ConfigError: It is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{value!r} is not a whole number from 1", where=where)
    return value


def _ahead(value: int | None, *, provider: SandboxProvider, n_concurrent: int) -> int:
    """How many sandboxes may be made ready before they are needed."""
    if value is None:
        # Where creating a sandbox costs next to nothing, one that is ready only costs memory.
        return max(1, n_concurrent // 4) if getattr(provider, "prepares_ahead", False) is True else 0
    return 0 if value == 0 and not isinstance(value, bool) else at_least_one(value, "prepare_ahead")


def _retried(code: FailureCode | str) -> FailureCode:
    try:
        found = FailureCode(code)
    except ValueError:
        raise ConfigError(
            f"{code!r} is no failure code", where="retry_on", hint=f"one of {', '.join(FailureCode)}"
        ) from None
    if found is FailureCode.CANCELLED:
        raise ConfigError("a cancelled trial is not retried", where="retry_on")
    return found
