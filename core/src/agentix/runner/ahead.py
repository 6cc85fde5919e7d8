"""Sandboxes and images made ready before they are needed, within a budget of their own."""

from __future__ import annotations

import copy
import hashlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup

from agentix.errors import AgentixError
from agentix.interfaces import Prefetches, SandboxProvider
from agentix.models import SandboxConfig, Trial
from agentix.runner.lease import Lease
from agentix.runner.phases import Phases
from agentix.runner.wanted import image_key

if TYPE_CHECKING:
    from agentix.runner.setting import Setting

_LOG = logging.getLogger("agentix.runner")
_SCANNED = 64
"""How many trials ahead images are looked for: several trials of one instance need one image."""
_IMMUTABLE = frozenset({str, int, float, bool, bytes})

LookAhead = Callable[[int], Sequence[Trial]]
SettingOf = Callable[[Trial], "Setting"]


class Ahead:
    """Uses what the machine can spare while trials run for those that come next.

    A sandbox is made for one trial, whose labels it carries, and given to that one only. One that fails or dies
    before it is needed is told to the trial that it was made for, and to nobody else.

    Args:
        provider: Makes the sandboxes.
        budget: How many may exist that nobody uses yet.
        setting_of: What a trial is run with.
        upcoming: Gives the next so many trials that have not started, without taking them.
        tasks: Where sandboxes are held.
    """

    def __init__(
        self, provider: SandboxProvider, *, budget: int, setting_of: SettingOf, upcoming: LookAhead, tasks: TaskGroup
    ) -> None:
        self.unreleased: list[str] = []
        """Ids of sandboxes that nobody used and that could not be deleted."""
        self._provider = provider
        self._budget = budget
        self._setting_of = setting_of
        self._upcoming = upcoming
        self._tasks = tasks
        self._unused: set[Lease] = set()
        self._next: dict[str, Lease] = {}
        self._stopped = False
        self._prefetches = provider if self._budget and isinstance(provider, Prefetches) else None
        self._images: set[bytes] = set()
        self._scanned_to = -1
        self._wanted: deque[SandboxConfig] = deque()
        self._fetching: set[anyio.CancelScope] = set()

    def look(self) -> None:
        """Give what is left of the budget to the next trials."""
        if self._stopped or not self._budget:
            return
        for trial in self._upcoming(self._budget):
            if trial.trial_id in self._next:
                continue
            if len(self._unused) >= self._budget:
                break
            config = self._config(trial)
            if config is None:
                continue
            lease = self.begin(config, self._phases(trial))
            if lease is not None:
                self._next[trial.trial_id] = lease
        self._prefetch()

    def begin(self, config: SandboxConfig, phases: Phases) -> Lease | None:
        """Begin to make a sandbox, if the budget has room; `use` ends its being counted."""
        if self._stopped or len(self._unused) >= self._budget:
            return None
        lease = Lease(self._provider, config, phases)
        self._unused.add(lease)
        lease.begin(self._tasks)
        return lease

    def take(self, trial: Trial) -> Lease | None:
        """The sandbox that was begun for a trial, once."""
        return self._next.pop(trial.trial_id, None)

    def use(self, lease: Lease) -> None:
        """A sandbox is in use, or was ended: another may be made ahead."""
        self._unused.discard(lease)
        self.look()

    async def discard(self, trial_id: str) -> None:
        """End what was begun for a trial that did not take it."""
        lease = self._next.pop(trial_id, None)
        if lease is not None:
            lease.drop()
            await self._close(lease)
            self.use(lease)

    def stop(self) -> None:
        """Begin to end everything that no trial has taken."""
        self._stopped = True
        for scope in self._fetching:
            scope.cancel()
        for lease in self._next.values():
            lease.drop()

    async def drain(self) -> None:
        """End everything that no trial has taken; returns when it is gone."""
        self.stop()
        for lease in self._next.values():
            await self._close(lease)
        self._next.clear()

    async def _close(self, lease: Lease) -> None:
        await lease.close()
        if lease.unreleased is not None:
            sandbox_id, why = lease.unreleased
            self.unreleased.append(sandbox_id)
            _LOG.warning("sandbox %s, which nobody used, could not be deleted: %s", sandbox_id, why)

    def _config(self, trial: Trial) -> SandboxConfig | None:
        # Whatever is wrong with the trial is found again, and told, when its turn comes.
        try:
            setting = self._setting_of(trial)
            return completed(setting.roles.config(own_copy(trial)), trial, bundle=setting.bundle)
        except Exception:
            return None

    def _configs(self, trial: Trial) -> Sequence[SandboxConfig]:
        """Whose images a trial needs that has no sandbox yet; where it has one, those that it needs besides."""
        try:
            needed = self._setting_of(trial).roles.wanted.all(own_copy(trial))
        except Exception:
            return ()
        return needed[1:] if trial.trial_id in self._next else needed

    def _phases(self, trial: Trial) -> Phases:
        setting = self._setting_of(trial)
        try:
            limits = setting.roles.limits(own_copy(trial))
        except Exception:
            limits = None
        return Phases(task=limits, run=setting.limits, rules=setting.timeouts)

    def _prefetch(self) -> None:
        if self._prefetches is None or self._stopped:
            return
        while len(self._fetching) < self._budget and (self._wanted or self._scan()):
            scope = anyio.CancelScope()
            self._fetching.add(scope)
            self._tasks.start_soon(self._fetch, self._wanted.popleft(), scope, name="agentix.prefetch")

    def _scan(self) -> bool:
        """Look on among the next trials for one that needs an image which nobody has asked for."""
        for trial in self._upcoming(_SCANNED):
            if trial.position <= self._scanned_to:
                continue
            self._scanned_to = trial.position
            self._wanted.extend(config for config in self._configs(trial) if self._is_new(config))
            if self._wanted:
                return True
        return False

    def _is_new(self, config: SandboxConfig) -> bool:
        wanted = image_key(config)
        if wanted is None:
            return False
        key = hashlib.blake2b(wanted.encode("utf-8", "surrogateescape"), digest_size=16).digest()
        known = key in self._images
        self._images.add(key)
        return not known

    async def _fetch(self, config: SandboxConfig, scope: anyio.CancelScope) -> None:
        assert self._prefetches is not None
        try:
            with scope:
                try:
                    await self._prefetches.prefetch(config)
                except AgentixError as error:
                    _LOG.info("an image was not had ahead of need: %s", error)
                except Exception:
                    _LOG.warning("the provider failed to get an image ahead of need", exc_info=True)
        finally:
            self._fetching.discard(scope)
        if not scope.cancel_called:
            self._prefetch()


def completed(config: SandboxConfig, trial: Trial, *, bundle: str | None) -> SandboxConfig:
    """What a dataset asks for, with the labels of the trial and the run's bundle."""
    return config.model_copy(
        update={"labels": {**config.labels, **trial.labels}, "bundle": bundle or config.bundle},
    )


def own_copy(trial: Trial) -> dict[str, Any]:
    """The instance, so that what one attempt does to it is not seen by another."""
    if all(value is None or type(value) in _IMMUTABLE for value in trial.instance.values()):
        return dict(trial.instance)
    try:
        return copy.deepcopy(dict(trial.instance))
    except Exception:
        return dict(trial.instance)
