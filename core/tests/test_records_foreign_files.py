"""Something else where a file of the run belongs: one clear error, no waiting, and nothing is doubled."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from agentix.errors import RecordsDamaged, RunError
from agentix.models import Rollout, Trial
from agentix.records import (
    AgentRow,
    ExperimentManifest,
    ExperimentWriter,
    PluginUse,
    ResumePlan,
    Session,
    StepUse,
    load_run,
)
from agentix.records.lock import Owner, RunLock, read_owner

pytestmark = pytest.mark.anyio


def manifest() -> ExperimentManifest:
    return ExperimentManifest(
        run_id="r",
        experiment="e",
        file="e.yaml",
        file_sha256="0",
        executor=StepUse(scope="per_trial", label="x", uses="x", kind="plugin", fingerprint="f"),
        matrix=(AgentRow(agent="x", use=PluginUse.of("x", {}), trials=1),),
        planned=2,
        sessions=(Session(),),
    )


@pytest.fixture
async def run(tmp_path: Path) -> Path:
    """A run of which the trial `a` has a line and `b` has only its trial.json."""
    path = tmp_path / "r"
    with ExperimentWriter(path) as writer:
        trials = [Trial(trial_id=name, instance={"instance_id": name}) for name in "ab"]
        writer.begin(manifest(), ResumePlan(run=tuple(trials)))
        for trial in trials:
            rollout = Rollout(trial.instance_id, trial_id=trial.trial_id, index=1, score={"reward": 1.0})
            record = await writer.trial_ended(rollout, trial, agent="x", case="c")
            assert record is not None
            if trial.trial_id == "a":
                await writer.finish(record)
    return path


def fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


@pytest.mark.parametrize("make", [fifo, directory])
@pytest.mark.parametrize("name", ["results.jsonl", "manifest.json"])
async def test_what_is_no_file_is_damage_and_nobody_waits_for_it(run: Path, name: str, make) -> None:
    make(run / name)
    with pytest.raises(RecordsDamaged, match=f"{name}: is no plain file"), ExperimentWriter(run):
        pass
    with pytest.raises(RecordsDamaged, match=f"{name}: is no plain file"):
        found = load_run(run)
        assert found.manifest is not None
        list(found)


@pytest.mark.parametrize("make", [fifo, directory])
async def test_a_lock_that_is_no_file_is_an_error(run: Path, make) -> None:
    make(run / ".lock")
    assert read_owner(run / ".lock") is None
    with pytest.raises(RunError, match="cannot be written"), ExperimentWriter(run):
        pass


async def test_the_trial_file_of_another_trial_is_damage_and_doubles_nothing(run: Path) -> None:
    shutil.copy(run / "trials/a/trial.json", run / "trials/b/trial.json")
    before = (run / "results.jsonl").read_bytes()
    with pytest.raises(RecordsDamaged, match=r"trials/b/trial\.json: is of the trial a, and not of b"):
        ExperimentWriter(run)
    assert (run / "results.jsonl").read_bytes() == before


async def test_a_manifest_that_is_nested_without_end_is_damage(run: Path) -> None:
    (run / "manifest.json").write_text("[" * 200_000)
    with pytest.raises(RecordsDamaged, match=r"manifest\.json"):
        ExperimentWriter(run)


def test_a_lock_with_something_else_in_it_names_nobody(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    path.write_text(json.dumps({"host": 1, "pid": "x", "started": [], "boot": 5, "birth": "q"}))
    assert read_owner(path) is None
    lock = RunLock(path)
    lock.acquire(Owner.this_process("now"))
    lock.release()


def test_the_lock_of_a_machine_whose_clock_was_put_back_does_not_hold_for_ever(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    path.write_text(json.dumps({"host": "other", "pid": 1, "started": "then", "boot": "another boot", "birth": 1}))
    ahead = time.time() + 86_400
    os.utime(path, (ahead, ahead))
    lock = RunLock(path)
    lock.acquire(Owner.this_process("now"))
    assert lock.taken_over is not None
    lock.release()
