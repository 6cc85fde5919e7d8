"""Experiments: what the engine costs a trial, when a result is durable, and a run with 100,000 results."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import resource
import tempfile
import time
from pathlib import Path

import anyio
from runner_mock import measured, ours
from table import Row, show

from agentix.api import Record, Rollout, Trial, content_hash
from agentix.cli.app import main
from agentix.plugins.experiments.engine import RunRequest, run_experiment
from agentix.records import ExperimentManifest, ExperimentWriter, Session, StepUse, utc_now

TRIALS = 5_000
RECORDED = 100_000
WIDTH = 32
ENDING = 100
"""How many trials end a second where durability is measured."""
SECONDS = 5

EXECUTOR = """
from pydantic import BaseModel, ConfigDict
from agentix.api import Rollout, Scope, StepOutcome

class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")

class Instant:
    scopes = frozenset({Scope.PER_TRIAL})
    Inputs = Nothing
    executes = True

    async def run(self, ctx, inputs):
        trial = ctx.work.trial
        rollout = Rollout(trial.instance_id, score={"reward": 1.0}, trial_id=trial.trial_id, index=trial.index)
        return StepOutcome(rollout=rollout)

step = Instant
"""


def experiment(root: Path, trials: int, *, cases: int = 10) -> RunRequest:
    """An experiment of so many trials that cost nothing."""
    for number in range(cases):
        case = root / "cases" / f"case-{number}"
        case.mkdir(parents=True)
        (case / "task.toml").write_text('[task]\nname = "bench/case"\n')
        (case / "instruction.md").write_text(f"Do {number}.\n")
        (case / "tests").mkdir()
        (case / "tests/test.sh").write_text("exit 0\n")
    (root / "executor.py").write_text(EXECUTOR)
    (root / "experiment.yaml").write_text(
        f"kind: Experiment\nname: bench\ncases: [{{path: {root}/cases/*}}]\n"
        f"matrix: {{agents: [someone], trials: {trials // cases}}}\nconcurrency: {WIDTH}\n"
    )
    return RunRequest(
        file=root / "experiment.yaml", out=root / "runs", run_id="r", executor=f"{root}/executor.py:step", quiet=True
    )


def cpu() -> float:
    """Seconds of this process and its children."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def timed(request: RunRequest) -> tuple[float, float]:
    """Wall and CPU seconds of one call."""
    wall, used = time.perf_counter(), cpu()
    with contextlib.redirect_stdout(io.StringIO()):
        assert run_experiment(request) == 0
    return time.perf_counter() - wall, cpu() - used


def engine() -> list[Row]:
    """CPU of a trial, beside that of the bare runner for a rollout that costs nothing either."""
    _, runner_ms = anyio.run(measured, ours)
    with tempfile.TemporaryDirectory() as scratch:
        _, used = timed(experiment(Path(scratch), TRIALS))
    name = f"CPU of a trial in an experiment of {TRIALS:,} (bare: the runner's mock rollout)"
    return [Row(name=name, ours=used * 1000 / TRIALS, unit="ms", target=runner_ms + 5, better="less", bare=runner_ms)]


def record(trial_id: str, case: Path, index: int, sha256: str) -> Record:
    """A result as long as real ones are."""
    draw = random.Random(trial_id)
    return Record(
        trial_id=trial_id,
        case=str(case),
        case_sha256=sha256,
        agent="someone",
        index=index,
        attempts=1,
        reward=draw.random(),
        ended="completed",
        phases={"create": 1.0, "setup": 0.5, "agent": 60.0, "score": 3.0},
        seconds=64.5,
        at=utc_now(),
    )


def large() -> list[Row]:
    """Resume and status where 100,000 trials have results."""
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        request = experiment(root, RECORDED + 10)
        shown = root / "few.yaml"
        shown.write_text((root / "experiment.yaml").read_text().replace(f"trials: {RECORDED // 10 + 1}", "trials: 1"))
        # A run of few trials makes the manifest; the many results are then as if they had been measured.
        timed(RunRequest(**{**vars(request), "file": shown}))
        results = root / "runs/r/results.jsonl"
        with results.open("ab") as file:
            for number in range(10):
                case = root / f"cases/case-{number}"
                sha256 = content_hash(case)
                for index in range(2, RECORDED // 10 + 1):
                    trial_id = f"case-{number}-someone-{index}"
                    file.write(record(trial_id, case, index, sha256).to_line())
        _, used = timed(request)
        name = f"CPU of a resume with {RECORDED:,} results, 10 trials to run, the report included"
        rows.append(Row(name=name, ours=used, unit="s", target=3, better="less"))
        used = cpu()
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert main("agentix", ["status", str(root / "runs/r"), "--json"]) == 0
        assert json.loads(out.getvalue())["numbers"]["total"]["measured"] == RECORDED + 10
        rows.append(Row(name=f"status of {RECORDED:,} results", ours=cpu() - used, unit="s", target=2, better="less"))
    return rows


async def durable(root: Path) -> list[float]:
    """Milliseconds from the end of each trial to its trial.json on the disk, many ending at once."""
    took: list[float] = []
    step = StepUse(scope="per_trial", label="x", uses="x", kind="plugin", fingerprint="0")
    manifest = ExperimentManifest(
        run_id="r", experiment="e", file="f", file_sha256="0", executor=step, sessions=(Session(),)
    )
    trials = [
        Trial(trial_id=f"t-{number}", instance={"instance_id": f"t-{number}"}) for number in range(ENDING * SECONDS)
    ]

    async def end(trial: Trial) -> None:
        await anyio.sleep(random.random() * SECONDS)
        began = time.perf_counter()
        rollout = Rollout(trial.instance_id, score={"reward": 1.0}, patch="x" * 2000, trial_id=trial.trial_id)
        kept = await writer.trial_ended(rollout, trial, agent="a", case="c")
        took.append((time.perf_counter() - began) * 1000)
        assert kept is not None
        await writer.finish(kept)

    with ExperimentWriter(root) as writer:
        writer.begin(manifest, writer.plan(trials))
        async with anyio.create_task_group() as tasks:
            for trial in trials:
                tasks.start_soon(end, trial)
    return sorted(took)


def rows() -> list[Row]:
    """Measure."""
    where = os.environ.get("AGENTIX_BENCH_DIR")
    with tempfile.TemporaryDirectory(dir=where) as scratch:
        took = anyio.run(durable, Path(scratch))
    middle = took[len(took) // 2]
    last = took[int(len(took) * 0.99)]
    name = f"a result is durable, {ENDING} trials ending a second"
    return [
        *engine(),
        *large(),
        Row(name=f"{name}, median", ours=middle, unit="ms", target=50, better="less"),
        Row(name=f"{name}, 99 %", ours=last, unit="ms", better="less"),
    ]


if __name__ == "__main__":
    show(rows())
