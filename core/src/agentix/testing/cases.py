"""What the checks of each kind need to know besides the plugin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentix.interfaces import Dataset, SandboxProvider, Scope, TrialWork
from agentix.models import Case as TrialCase
from agentix.models import SandboxConfig


@dataclass(frozen=True, kw_only=True)
class ProviderCase:
    """How to try a provider."""

    config: SandboxConfig = field(default_factory=SandboxConfig)
    """A sandbox that the provider can create, with `sh`, `cat` and `head` in it."""
    another: Callable[[], SandboxProvider] | None = None
    """Makes a second provider object, as another process would have it."""
    timeout_s: float = 120.0
    """Seconds that any one check may take."""


@dataclass(frozen=True, kw_only=True)
class DatasetCase:
    """How to try a dataset."""

    provider: SandboxProvider | None = None
    """Where its instances run; without one only what needs no sandbox is checked."""
    instances: int = 1
    """How many instances to run, from the first."""
    scan: int = 1000
    """How many instances to look at."""
    timeout_s: float = 600.0
    """Seconds that any one check may take."""


@dataclass(frozen=True, kw_only=True)
class AgentCase:
    """How to try an agent."""

    provider: SandboxProvider | None = None
    """Where the agent works; without one only what needs no sandbox is checked."""
    dataset: Dataset | None = None
    """What to solve, by its first instance; by default a task of one file."""
    model: str | None = None
    timeout_s: float = 120.0
    """Seconds that any one check may take."""


@dataclass(frozen=True, kw_only=True)
class StepCase:
    """How to try a step."""

    inputs: Mapping[str, Any] | None = None
    """Inputs with which it can run here; without them it is not run."""
    scope: Scope | None = None
    """The unit that it is tried on; by default the first of its scopes."""
    subject: Mapping[str, Any] = field(default_factory=dict)
    """By default a trial that was measured, for a step on trials."""
    prepare: Callable[[Path], None] | None = None
    """Fills the run's directory before the step runs; by default two results are in it, for a step on runs."""
    prepare_case: Callable[[Path], None] | None = None
    """Fills the case's directory."""
    prepare_trial: Callable[[Path], None] | None = None
    """Fills the trial's directory."""
    rewards: Mapping[str, float] = field(default_factory=lambda: {"oracle": 1.0, "nop": 0.0})
    """What probes of the case are rewarded with, by the name of the agent."""
    work: Callable[[TrialCase, Path], TrialWork] | None = None
    """Makes the trial that an executor is to run in a directory."""
    writes: tuple[str, ...] = ()
    """Paths in the run's directory that `inputs` tell it to write."""
    ok: bool | None = None
    """The verdict that it has to come to, where the case decides it."""
    timeout_s: float = 120.0


@dataclass(frozen=True, kw_only=True)
class TransportCase:
    """How to try a transport."""

    inputs: Mapping[str, Any] | None = None
    """Inputs with which it can ship from here; without them nothing is shipped."""
    tools: tuple[str, ...] = ()
    """Programs on the PATH that it runs, such as `rclone`; what they see of this machine's environment is looked at."""
    timeout_s: float = 120.0


Case = ProviderCase | DatasetCase | AgentCase | StepCase | TransportCase
