"""What an executor is given: one trial, with everything that running it takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentix.interfaces.agent import Agent
    from agentix.interfaces.dataset import Dataset
    from agentix.interfaces.flow import Earlier
    from agentix.interfaces.provider import SandboxProvider
    from agentix.models import LLM, Case, Ended, Event, FailureCode, Limits, Phase, TimeoutRule, Trial, Usage
    from agentix.runner import Preparer


def _ignore(event: Event) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class AgentUse:
    """The agent of a trial, as the experiment names it."""

    name: str
    """What records call it."""
    ref: str
    """The reference that it was found under."""
    options: Mapping[str, Any] = field(default_factory=dict)
    command: str | None = None
    """Where it is a configured command: a shell line that runs it."""


@dataclass(frozen=True, kw_only=True)
class KeptAnswer:
    """What an agent has done in an earlier running of a trial, whose scoring failed."""

    patch: str
    """Any bytes, as UTF-8 with surrogateescape; empty only where there is `earlier`."""
    earlier: Earlier | None = None
    """What the dataset kept itself, where it drives its own flow."""
    ended: Ended | None = None
    usage: Usage | None = None
    agent_version: str | None = None
    image_digest: str | None = None
    trajectory: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class TrialWork:
    """One trial that is to be run."""

    trial: Trial
    case: Case
    agent_use: AgentUse
    load_agent: Callable[[], Agent]
    """The agent as an object.

    It raises a ConfigError or a PluginError where it cannot be loaded.
    """
    load_dataset: Callable[[], Dataset]
    """The dataset that sets the case up and scores it."""
    provider: SandboxProvider | None = None
    """Makes the sandboxes; `None` where the executor brings its own."""
    llm: LLM | None = None
    key: Callable[[], Awaitable[str | None]] | None = None
    """Resolves the model's key; it raises EnvFailed where it is missing. The value is never to be stored."""
    limits: Limits | None = None
    timeouts: Mapping[Phase, TimeoutRule] = field(default_factory=dict)
    max_attempts: int = 1
    retry_on: frozenset[FailureCode] = frozenset()
    preparer: Preparer | None = None
    """Makes sandboxes ready before they are needed, for `rollout_one`."""
    directory: Path
    """The trial's directory on the host; attempt n keeps its files in `attempts/<n>` of it, the last one's answer is
    in `out` where the executor is a program."""
    kept: KeptAnswer | None = None
    """What is only to be scored again, where the executor and the dataset can do that."""
    on_event: Callable[[Event], None] = _ignore
