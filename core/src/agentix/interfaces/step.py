"""The contract of a step: one action of a pipeline, on a case, a trial or a whole experiment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pydantic import BaseModel

from agentix.interfaces.step_context import Scope, StepContext

if TYPE_CHECKING:
    from agentix.interfaces.trial_work import AgentUse
    from agentix.models import Limits, Rollout


@dataclass(frozen=True, kw_only=True)
class StepOutcome:
    """What a step concluded."""

    ok: bool = True
    """Whether it found what it looked for. A verdict: what could not be found out is raised."""
    message: str = ""
    drop: bool = False
    """Keep the measurement and publish nothing of it."""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    rollout: Rollout | None = None
    """What an executor measured."""
    publish: Mapping[str, Path] = field(default_factory=dict)
    """Files and directories below its `work_dir` that may leave this machine, by the place that they get in the run's
    directory, such as `archives/a-oracle-1.tar`. They are moved there."""
    redaction: Mapping[str, int] = field(default_factory=dict)
    """How often each kind of secret was taken out."""


@runtime_checkable
class Step(Protocol):
    """One action. Its inputs are checked against `Inputs` before anything runs."""

    scopes: frozenset[Scope]
    Inputs: type[BaseModel]
    """With `extra="forbid"`, so that an unknown input is an error."""

    async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
        """Do it; safe to run again after an interruption.

        Raises:
            Exception: Anything raised is STEP_FAILED, attributed to the step.
        """
        ...


@runtime_checkable
class Executes(Protocol):
    """A per-trial step that runs the trial: it is given `ctx.work` and its outcome holds a `rollout`."""

    executes: bool


@runtime_checkable
class Reports(Protocol):
    """A per-experiment step that also runs on the way out of a run that did not complete, once a run at most."""

    reports: bool


@runtime_checkable
class Publishes(Protocol):
    """A step that sees only what may leave this machine.

    Its `run_dir` is a tree like the run's directory in which everything was redacted and of which dropped trials are no
    part, and its `trial_dir` is the trial's part of that. It does not run for a trial of which nothing is published.
    """

    publishes: bool


@runtime_checkable
class NamesPlaces(Protocol):
    """A per-experiment step that publishes and can tell from its inputs where.

    Two steps that would publish to one place are then an error of the file, before anything runs.
    """

    def places(self, inputs: Any) -> Iterable[str]:
        """Places that are among those of `StepOutcome.publish` whenever it publishes anything.

        Args:
            inputs: Its inputs, with an example's values where templates stand. Where the name of the experiment or of
                the run is a part of a place, `{{.Experiment}}` or `{{.RunID}}` stands for it.
        """
        ...


@runtime_checkable
class Redacts(Protocol):
    """A per-trial step that makes what may be published of a trial out of what the trial left.

    Its outcome has it under the place `trials/<trial id>`. Where it fails, that is REDACT_FAILED, and nothing of the
    trial is published.
    """

    redacts: bool


@runtime_checkable
class ChecksAhead(Protocol):
    """A step that can tell, before anything runs, what would keep it from working: a program that is missing, say."""

    def check(self, inputs: Any, *, agents: Sequence[AgentUse] = (), limits: Limits | None = None) -> Iterable[str]:
        """Say what is wrong, each thing with what to do about it; nothing where all is well. It does not take long.

        Args:
            inputs: Its inputs, with an example's values where templates stand.
            agents: Those of the experiment, for a step that runs trials.
            limits: What the experiment says of limits.
        """
        ...
