"""What the gate is told once, for all cases."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from agentix.api import Case, Rollout, Scope, StepContext, list_plugins, slug
from agentix.plugins.experiments.commands import CommandRunner
from agentix.plugins.experiments.steps import ResolvedStep, digest, exponential, file_hashes

GATE_DIR = "gate"


class RunProbe(Protocol):
    """Runs a case once through the run's own executor."""

    def __call__(self, case: Case, agent: str, *, index: int, directory: Path) -> Awaitable[Rollout]:
        """Run it; `directory` is a new one, which the probe keeps its files in."""
        ...


def _silent(line: str) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class GateSetting:
    """How cases are checked."""

    steps: tuple[ResolvedStep, ...]
    run_id: str
    run_dir: Path
    experiment: str
    snapshots: Path
    """Where the snapshots of the run's cases are, those of repaired ones too."""
    cache: Path
    """The file with the verdicts."""
    setup: Mapping[str, Any]
    """What decides a probe's reward besides the case and the step: executor, provider, options. Plain data."""
    run_probe: RunProbe
    runner: CommandRunner | None = None
    regate: bool = False
    """Whether to check again what has a verdict."""
    concurrency: int = 1
    secrets: Mapping[str, str] = field(default_factory=dict)
    say: Callable[[str], None] = _silent
    """Told what is good to know."""
    warn: Callable[[str], None] = _silent
    """Told what has to be known."""
    backoff: Callable[[int], float] = exponential

    def key(self, case: Case, step: ResolvedStep) -> str | None:
        """What a verdict is kept under; `None` where the case's content is not known."""
        return verdict_key(case, step, self.setup)

    def directory(self, case: Case, step: ResolvedStep) -> Path:
        """Where a step on a case may write."""
        return case_directory(self.run_dir, case) / step.key

    def context(self, case: Case, work_dir: Path) -> StepContext:
        """What a step or a repair is told of a case."""
        return StepContext(
            scope=Scope.PER_CASE,
            run_id=self.run_id,
            run_dir=self.run_dir,
            work_dir=work_dir,
            experiment=self.experiment,
            case=case,
        )


def case_directory(run_dir: Path, case: Case) -> Path:
    """Where a run has its evidence about a case; other bytes are another place."""
    return run_dir / GATE_DIR / f"{slug(case.name)}-{(case.sha256 or 'unhashed')[:12]}"


def verdict_key(case: Case, step: ResolvedStep, setup: Mapping[str, Any]) -> str | None:
    """What a verdict is kept under; `None` where the case's content is not known.

    Args:
        case: The case, wherever it is.
        step: The check.
        setup: What decides a probe's reward besides the two.
    """
    if case.sha256 is None:
        return None
    # Where the snapshot is plays no part in what it is.
    options = {name: value for name, value in case.options.items() if name != "path"}
    return digest(
        {
            "case": case.sha256,
            "dataset": [case.dataset, options, file_hashes(options), _versions("dataset", case.dataset)],
            "instance": None if case.directory is not None else case.instance,
            "setup": setup,
            "files": file_hashes(setup),
            "step": step.fingerprint(),
        }
    )


def _versions(kind: Literal["dataset"], name: str) -> list[str]:
    """Who installed it, and in which version: another one may score otherwise."""
    return [info.label for info in list_plugins(kind) if info.name == name]
