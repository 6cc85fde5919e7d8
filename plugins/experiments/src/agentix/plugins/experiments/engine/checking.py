"""The gate of a run: how its cases are checked, through the run's own executor."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio.to_thread

from agentix.api import Case, Event, Rollout
from agentix.plugins.experiments.commands import CommandRunner
from agentix.plugins.experiments.engine.manifest import step_use
from agentix.plugins.experiments.engine.parts import Parts
from agentix.plugins.experiments.engine.work import Executor, probe_trial
from agentix.plugins.experiments.gate import GateSetting

CACHE = "gate-cache.json"
"""Beside the runs: a verdict is no run's own."""


def gate_setting(
    parts: Parts,
    executor: Executor,
    runner: CommandRunner,
    *,
    run_id: str,
    run_dir: Path,
    regate: bool,
    say: Callable[[str], None],
) -> GateSetting:
    """How the cases of a run are checked."""
    experiment = parts.submission.experiment

    async def probe(case: Case, agent: str, *, index: int, directory: Path) -> Rollout:
        await anyio.to_thread.run_sync(_clear, directory)
        return await executor.run(probe_trial(case, agent, index=index), directory, on_event=_ignore)

    return GateSetting(
        steps=parts.pipeline.per_case,
        run_id=run_id,
        run_dir=run_dir,
        experiment=experiment.name,
        snapshots=run_dir / "cases",
        cache=run_dir.parent / CACHE,
        setup=setup_of(parts),
        run_probe=probe,
        runner=runner,
        regate=regate,
        concurrency=experiment.pipeline.per_case_concurrency,
        say=say,
    )


def setup_of(parts: Parts) -> dict[str, Any]:
    """What decides a probe's reward besides the case: the executor, its sandboxes and its limits."""
    provider = parts.provider_use
    return {
        "executor": step_use(parts.executor).model_dump(mode="json"),
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
