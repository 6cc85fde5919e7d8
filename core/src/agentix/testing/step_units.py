"""A scratch run with one case and one trial, for trying a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio.lowlevel

from agentix.interfaces import Publishes, Scope, StepContext
from agentix.models import Case, Rollout
from agentix.records import Record
from agentix.redaction import Secrets
from agentix.testing.cases import StepCase

RUN_ID = "agentix-check"
CANARIES = ('ak-\\canary"/+0123456789', "namedcanary0123456789")
"""What `ctx.secrets` knows; the second one could be part of a file's name."""
RECORD = Record(trial_id="case-agent-1", case="case", agent="agent", reward=1.0, seconds=1.0)


@dataclass(frozen=True, kw_only=True)
class Unit:
    """What a step is tried on."""

    ctx: StepContext
    read_only: tuple[Path, ...]
    """Directories that it must not write to."""
    writes: tuple[Path, ...]
    """What in them its inputs tell it to write."""

    def fingerprint(self) -> dict[str, str]:
        """The contents of everything that must stay as it is."""
        found = {}
        for root in self.read_only:
            for path, digest in fingerprint(root).items():
                if not any((root / path).is_relative_to(written) for written in self.writes):
                    found[f"{root.name}/{path}"] = digest
        return found


def fingerprint(directory: Path) -> dict[str, str]:
    """Every path below a directory, with the content of files and the target of links."""
    found = {}
    for path in sorted(directory.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(directory))] = f"-> {path.readlink()}"
        elif path.is_file():
            found[str(path.relative_to(directory))] = sha256(path.read_bytes()).hexdigest()
        else:
            found[str(path.relative_to(directory))] = "directory"
    return found


@contextmanager
def units(plugin: Any, case: StepCase, *, probed: Callable[[], None] | None = None) -> Iterator[Unit]:
    """A unit in a scratch run directory.

    Args:
        plugin: The step.
        case: How it is tried.
        probed: Called by every probe that the step makes.
    """
    with TemporaryDirectory(prefix="agentix-check-") as scratch:
        root = Path(scratch).resolve()
        run_dir, work_dir, case_dir, trial_dir = (root / name for name in ("run", "work", "case", "trial"))
        scope = case.scope or min(plugin.scopes, key=list(Scope).index)
        published = isinstance(plugin, Publishes) and bool(plugin.publishes)
        if published and scope is Scope.PER_TRIAL:
            trial_dir = run_dir / "trials" / RECORD.trial_id
        for path in (run_dir, work_dir, case_dir, trial_dir):
            path.mkdir(parents=True)
        _fill(case, scope, run_dir=run_dir, case_dir=case_dir, trial_dir=trial_dir)
        ctx = _context(case, scope, run_dir, work_dir, case_dir, trial_dir, probed or (lambda: None))
        if published:
            ctx = replace(ctx, path=trial_dir if scope is Scope.PER_TRIAL else run_dir)
        yield Unit(
            ctx=ctx,
            read_only=(run_dir, case_dir, trial_dir) if case.work is None else (run_dir, case_dir),
            writes=tuple(run_dir / name for name in case.writes),
        )


def _fill(case: StepCase, scope: Scope, *, run_dir: Path, case_dir: Path, trial_dir: Path) -> None:
    if case.prepare is not None:
        case.prepare(run_dir)
    elif scope is Scope.PER_EXPERIMENT:
        lines = [RECORD, RECORD.model_copy(update={"trial_id": "case-agent-2", "index": 2, "reward": 0.0})]
        (run_dir / "results.jsonl").write_bytes(b"".join(record.to_line() for record in lines))
    if case.prepare_case is not None:
        case.prepare_case(case_dir)
    if case.prepare_trial is not None:
        case.prepare_trial(trial_dir)


def _context(
    case: StepCase,
    scope: Scope,
    run_dir: Path,
    work_dir: Path,
    case_dir: Path,
    trial_dir: Path,
    probed: Callable[[], None],
) -> StepContext:
    on_trial, on_run = scope is Scope.PER_TRIAL, scope is Scope.PER_EXPERIMENT
    subject = Case(
        name="case",
        label="cases/case",
        source="local",
        dataset="harbor",
        instance={"instance_id": "case", "path": str(case_dir)},
        options={"path": str(case_dir)},
        sha256="0" * 64,
        directory=case_dir,
    )

    async def probe(agent: str, *, index: int = 1) -> Rollout:
        probed()
        await anyio.lowlevel.checkpoint()
        return Rollout("case", score={"reward": case.rewards[agent]}, index=index)

    return StepContext(
        scope=scope,
        run_id=RUN_ID,
        run_dir=run_dir,
        work_dir=work_dir,
        experiment="check",
        subject=case.subject or (RECORD.to_data() if on_trial else {}),
        case=None if on_run else subject,
        trial_dir=trial_dir if on_trial else None,
        work=None if case.work is None else case.work(subject, trial_dir),
        secrets=Secrets(CANARIES),
        probe=probe if scope is Scope.PER_CASE else None,
    )
