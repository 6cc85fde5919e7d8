"""`--dry-run`: what would run, and why the rest would not."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from agentix.api import FailureCode, without_logins
from agentix.cli.api import ExperimentManifest, Output, RunState, exit_codes, plural
from agentix.plugins.experiments.cases import SNAPSHOTS, resolve
from agentix.plugins.experiments.commands import CommandRunner
from agentix.plugins.experiments.engine.checking import CACHE
from agentix.plugins.experiments.engine.foreknown import GateAhead, look_ahead
from agentix.plugins.experiments.engine.manifest import make_manifest
from agentix.plugins.experiments.engine.parts import Parts
from agentix.plugins.experiments.engine.request import RunRequest
from agentix.plugins.experiments.engine.resuming import unshipped
from agentix.plugins.experiments.gate import VerdictCache, recall, recalls
from agentix.plugins.experiments.plan import Plan, make_plan, select_cases
from agentix.plugins.experiments.progress import Board
from agentix.plugins.experiments.steps import ResolvedStep


async def preview(request: RunRequest, parts: Parts, path: Path) -> int:
    """Say what a run would do. Cases are fetched to know what they are; nothing is kept and nothing is run."""
    output = Output.stdout()
    for notice in parts.notices:
        output.line(f"note: {notice}")
    with TemporaryDirectory(prefix="agentix-dry-run-") as scratch:
        async with CommandRunner(inherit_env=parts.submission.commands.inherit_env) as runner:
            cases = await resolve(parts.submission, runner=runner, snapshots=Path(scratch), say=output.line)
        chosen = select_cases(cases, patterns=request.cases, limit=request.limit)
        if recalls(parts.pipeline.per_case, regate=request.regate):
            kept = path / SNAPSHOTS
            again = [await recall(case, run_dir=path, kept=kept, snapshots=Path(scratch)) for case in chosen]
            chosen = tuple(again)
        plan = make_plan(parts.submission, chosen)
        ahead = None
        if parts.pipeline.per_case:
            cache = VerdictCache(path.parent / CACHE)
            ahead = look_ahead(parts, chosen, {} if request.regate else cache.read())
            if cache.notice is not None:
                output.line(f"note: {cache.notice}")
        manifest = make_manifest(parts, chosen, plan, run_id=path.name)
        taken = {case.label for case in chosen}
        for case in cases:
            if case.label not in taken:
                output.line(f"case {case.label}: left out by --case or --limit")
    output.line(plan.line)
    _show(request, parts, plan, manifest, path, output, ahead)
    return exit_codes.OK


def _show(
    request: RunRequest,
    parts: Parts,
    plan: Plan,
    manifest: ExperimentManifest,
    path: Path,
    output: Output,
    ahead: GateAhead | None,
) -> None:
    board = Board(path.name, parts.submission.experiment.name)
    state = RunState.read(path, seen=board.count) if path.exists() else None
    for notice in () if state is None else state.notices:
        output.line(f"note: {notice}")
    earlier = None if state is None else state.manifest
    if isinstance(earlier, ExperimentManifest):
        for change in earlier.changes(manifest):
            output.line(f"changed: {change}" + ("" if request.force else " (refused without --force)"))
    for line in () if ahead is None else ahead.lines:
        output.line(line)
    for when, steps in (("after each trial", parts.pipeline.per_trial), ("at the end", parts.pipeline.per_experiment)):
        if steps:
            output.line(f"{when}: {', '.join(map(_step, steps))}")
    done: dict[str, FailureCode | None] = {}
    ended: dict[str, FailureCode | None] = {}
    if state is not None:
        done = state.done
        ended = {name: record.failure_code for name, record in state.recoverable.items()}
        ended |= {name: done[name] for name in unshipped(parts.pipeline.per_trial, board.failed_steps)}
    to_run = 0
    lines = []
    for trial in plan.trials:
        why = _why_not(trial.trial_id, done, ended, request.retry)
        if why is None and ahead is not None:
            why = ahead.why_not(trial.case)
        to_run += why is None
        lines.append(f"  {trial.trial_id}" if why is None else f"  {trial.trial_id}: {why}")
    output.line(f"{path}: {plural(to_run, 'trial')} to run (dry run: nothing was run)")
    for line in lines:
        output.line(line)
    if gone := done.keys() - {trial.trial_id for trial in plan.trials}:
        output.line(f"  {plural(len(gone), 'trial')} besides these: not run, with a result that is kept")


def _step(step: ResolvedStep) -> str:
    if not step.ships:
        return step.label
    dest = without_logins(step.given.get("dest"))
    what = "" if step.path is None else f"{step.path} "
    return f"{step.label} ({what}with {step.plugin}{'' if dest is None else f', to {dest}'})"


def _why_not(
    name: str,
    done: dict[str, FailureCode | None],
    ended: dict[str, FailureCode | None],
    retry: frozenset[FailureCode],
) -> str | None:
    code = done.get(name, ended.get(name))
    if (name not in done and name not in ended) or code in retry:
        return None
    if name in ended:
        return "not run: it has ended, and only its steps are left"
    if code is None:
        return "not run: it has a result"
    again = "" if code.is_agents else f"; --retry {code} runs it again"
    return f"not run: it has a result, {code}{again}"
