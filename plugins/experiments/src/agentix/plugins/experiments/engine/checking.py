"""The gate of a run: how its cases are checked, through the run's own executor."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio.to_thread

from agentix.api import Case, Event, Rollout
from agentix.cli.api import ExperimentManifest
from agentix.plugins.experiments.cases import SNAPSHOTS
from agentix.plugins.experiments.commands import CommandRunner
from agentix.plugins.experiments.engine.live import LiveRun
from agentix.plugins.experiments.engine.manifest import step_use
from agentix.plugins.experiments.engine.parts import Parts
from agentix.plugins.experiments.engine.request import RunRequest
from agentix.plugins.experiments.engine.work import Executor, probe_trial
from agentix.plugins.experiments.gate import GateResult, GateSetting, run_gate

CACHE = "gate-cache.json"
"""Beside the runs: a verdict is no run's own."""


async def check_cases(
    live: LiveRun,
    request: RunRequest,
    cases: Sequence[Case],
    manifest: ExperimentManifest,
    executor: Executor,
    runner: CommandRunner,
) -> GateResult:
    """Run the gate of a run.

    Args:
        live: The run.
        request: What was asked for.
        cases: What is checked.
        manifest: What the run is, as far as that is known before.
        executor: Runs probes.
        runner: Runs configured commands.

    Raises:
        RunChanged: It is not the run that there is, which no check would change.
    """
    if not any(step.fix is not None for step in live.parts.pipeline.per_case):
        # A repair changes what the cases are; without one, a refusal need not wait for the checks.
        live.writer.check(manifest, force=request.force)
    if live.writer.earlier is None:
        # So that another terminal can see the run already.
        live.writer.update(manifest)
    live.board.state = "gate"
    async with executor.preparing():
        result = await run_gate(cases, _setting(live, executor, runner, regate=request.regate))
    for warning in result.warnings:
        live.say(f"note: {warning}")
    for case in cases:
        why = result.rejected.get(case.label)
        if case.label in result.unknown:
            why = f"could not be checked: {result.unknown[case.label]}"
        facts = {"name": case.name, "label": case.label, "sha256": case.sha256}
        live.told(live.hooks.call("agentix_case_finished", case=facts, accepted=why is None, message=why or ""))
    return result


def _setting(live: LiveRun, executor: Executor, runner: CommandRunner, *, regate: bool) -> GateSetting:
    parts, run_dir = live.parts, live.root.absolute()
    experiment = parts.submission.experiment

    async def probe(case: Case, agent: str, *, index: int, directory: Path) -> Rollout:
        await anyio.to_thread.run_sync(_clear, directory)
        return await executor.run(probe_trial(case, agent, index=index), directory, on_event=_ignore)

    return GateSetting(
        steps=parts.pipeline.per_case,
        run_id=live.board.run_id,
        run_dir=run_dir,
        experiment=experiment.name,
        snapshots=run_dir / SNAPSHOTS,
        cache=run_dir.parent / CACHE,
        setup=gate_setup(parts),
        run_probe=probe,
        runner=runner,
        regate=regate,
        concurrency=experiment.pipeline.per_case_concurrency,
        say=live.note,
        warn=lambda text: live.say(f"note: {text}"),
    )


def gate_setup(parts: Parts) -> dict[str, Any]:
    """What decides a probe's reward besides the case: the executor, its sandboxes and its limits."""
    provider = parts.provider_use
    return {
        "executor": step_use(parts.executor).model_dump(mode="json", exclude={"parts"}),
        "provider": None if provider is None else provider.model_dump(mode="json"),
        "limits": parts.submission.experiment.limits.model_dump(mode="json"),
    }


def _clear(directory: Path) -> None:
    """What an earlier probe left would be a stale answer."""
    with suppress(FileNotFoundError):
        shutil.rmtree(directory)
    directory.mkdir(parents=True)


def _ignore(event: Event) -> None:
    pass
