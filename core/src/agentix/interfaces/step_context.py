"""What a step is told: the unit that it acts on, where it may write, and what it may ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agentix.models import slug

if TYPE_CHECKING:
    from agentix.interfaces.trial_work import TrialWork
    from agentix.models import Case, Rollout
    from agentix.redaction import Secrets


class Scope(StrEnum):
    """The unit of work that a step acts on."""

    PER_CASE = "per_case"
    PER_TRIAL = "per_trial"
    PER_EXPERIMENT = "per_experiment"


class Probe(Protocol):
    """Runs the case once through the run's own executor, as evidence and not as a result of the run."""

    async def __call__(self, agent: str, *, index: int = 1) -> Rollout:
        """Run an agent on the case.

        Args:
            agent: Name of an agent, such as `oracle` or `nop`.
            index: Tells repeated probes of one agent apart, from 1.
        """
        ...


def _silent(message: str) -> None:
    pass


def _no_secrets() -> Secrets:
    # Whoever never publishes need not load what looks for secrets.
    from agentix.redaction import Secrets

    return Secrets()


def _none() -> Iterable[Mapping[str, Any]]:
    return ()


@dataclass(frozen=True, kw_only=True)
class StepContext:
    """Where and for what a step runs. Paths are absolute."""

    scope: Scope
    run_id: str
    run_dir: Path
    """The run's directory, to be read only."""
    work_dir: Path
    """The only directory that the step may write to; it is the step's own, and empty at the first run."""
    experiment: str = ""
    """Name of the experiment."""
    subject: Mapping[str, Any] = field(default_factory=dict)
    """The case, the trial's record or the run's manifest, as plain data."""
    case: Case | None = None
    """The case, per case and per trial."""
    trial_dir: Path | None = None
    """What the trial left, per trial, to be read only."""
    path: Path | None = None
    """What is to be shipped, for a step that ships; it stands below `run_dir`, and is to be read only."""
    secrets: Secrets = field(default_factory=_no_secrets)
    """The values that nothing published may hold."""
    patterns: Mapping[str, str] = field(default_factory=dict)
    """What else plugins want taken out, for a step that redacts: regular expressions by the kind that they count as."""
    withheld: Callable[[], Iterable[Mapping[str, Any]]] = _none
    """The redacted records of dropped trials, per experiment, for a step that publishes."""
    work: TrialWork | None = None
    """The trial to run, for an executor."""
    probe: Probe | None = None
    """Runs the case, per case."""
    incomplete: str | None = None
    """Why the run did not complete, per experiment on the way out; `None` for one that did."""
    say: Callable[[str], None] = _silent
    """Tells the user one line."""

    @property
    def key(self) -> str:
        """A name for the unit that no other unit has: `EXPERIMENT/RUN`, and then the case or the trial."""
        parts = [slug(self.experiment) if self.experiment else "", self.run_id]
        if self.scope is Scope.PER_CASE and self.case is not None:
            parts.append(slug(self.case.name))
        if self.scope is Scope.PER_TRIAL:
            parts.append(str(self.subject.get("trial_id", "")))
        return "/".join(filter(None, parts))
