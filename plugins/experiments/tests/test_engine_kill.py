"""kill -9 at any boundary: nothing that was recorded is lost, nothing is doubled, nothing is left behind."""

from __future__ import annotations

import json
import os
import random
import re
import signal

import anyio
import pytest
from killing import drive, outliving

from agentix.api import load, load_run
from agentix.cli.app import main

FILE = """
---
kind: Commands
check: {run: ["sh", "-c", "echo fine"]}
note: {run: ["sh", "-c", "echo noted > $WORK_DIR/noted.txt"]}
---
matrix: {agents: [oracle], trials: 1}
concurrency: 2
pipeline:
  per_case: [{uses: check}]
  per_trial: [{uses: local}, {uses: note}]
  per_experiment: [{uses: note, name: after}, {uses: report}]
"""

STAGES = (
    "cases/",
    "gate/",
    "manifest.json",
    "phase create",
    "phase setup",
    "phase agent",
    "phase score",
    "trial.json",
    "move note",
    "steps/note",
    "torn runs/r/results.jsonl",
    "fsync runs/r/results.jsonl",
    "steps/after",
    "report.md",
)


def points(lab) -> list[str]:
    """Every boundary of an undisturbed run, which is the one to compare with."""
    lab.file(FILE)
    assert drive(lab.root) == 0
    found: list[str] = json.loads((lab.root / "points.json").read_text())
    return list(dict.fromkeys(found))


@pytest.mark.real
@pytest.mark.timeout(1200)  # some fifteen runs
@pytest.mark.parametrize("seed", range(4))
def test_a_killed_run_ends_in_the_same_results(lab, seed: int) -> None:
    labels = points(lab)
    missing = [stage for stage in STAGES if not any(stage in label for label in labels)]
    assert not missing, f"no boundary was seen in {missing}"
    draw = random.Random(seed)
    # Every stage in one of the four sweeps, and some boundaries of any kind.
    stages = [draw.choice([label for label in labels if stage in label]) for stage in STAGES[seed::4]]
    for number, label in enumerate([*stages, *draw.sample(labels, 3)]):
        sweep(lab, label, number)


def sweep(lab, label: str, number: int) -> None:
    root = lab.root / f"sweep-{number}"
    root.mkdir()
    (root / "cases").symlink_to(lab.root / "cases")
    (root / "experiment.yaml").write_bytes((lab.root / "experiment.yaml").read_bytes())
    died = drive(root, label, 1) == -signal.SIGKILL
    results = root / "runs/r/results.jsonl"
    before = results.read_bytes() if results.exists() else b""
    whole = before[: before.rfind(b"\n") + 1]
    assert not outliving(root), f"{label}: something outlives the run"
    assert drive(root) == 0, label
    after = results.read_bytes()
    assert after.startswith(whole), f"{label}: a line was lost"
    run = load_run(root / "runs/r")
    found = [(record.trial_id, record.reward) for record in run]
    assert sorted(found) == [("a-oracle-1", 1.0), ("b-oracle-1", 1.0)], f"{label} (died: {died})"
    for trial_id, _ in found:
        assert run.trial(trial_id).record.reward == 1.0
        assert (root / f"runs/r/trials/{trial_id}/steps/note/noted.txt").exists()
    assert (root / "runs/r/report.md").exists()
    assert not re.search("did not complete", (root / "runs/r/report.md").read_text()), label
    assert not outliving(root), f"{label}: something outlives the run"
    assert not list((root / "runs/r").glob(".*.tmp")), f"{label}: half a file is left"


@pytest.mark.real
def test_no_sandbox_is_left_of_a_killed_run(lab) -> None:
    lab.file(FILE)
    run_id = f"killed-{os.getpid()}-{lab.root.name}"
    assert drive(lab.root, "phase agent a-oracle-1", 1, run_id=run_id) == -signal.SIGKILL
    assert drive(lab.root, run_id=run_id) == 0
    assert outliving(lab.root) == []
    assert main("agentix", ["gc", "--provider", "local"]) == 0

    async def left() -> object:
        return await load("provider", "local").list({"agentix.run": run_id})

    assert anyio.run(left) == []
