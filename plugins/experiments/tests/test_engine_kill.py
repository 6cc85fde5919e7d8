"""kill -9 at any boundary: nothing that was recorded is lost, nothing is doubled, nothing is left behind."""

from __future__ import annotations

import json
import os
import random
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from agentix.api import load, load_run
from agentix.cli.app import main

DRIVER = r"""
import json, os, re, signal, sys
from pathlib import Path

root, wanted, occurrence, run_id = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
seen, order = {}, []
busy = False


def point(label, before_death=None):
    seen[label] = seen.get(label, 0) + 1
    order.append(label)
    if label == wanted and seen[label] == occurrence:
        if before_death is not None:
            before_death()
        os.kill(os.getpid(), signal.SIGKILL)


def name(path):
    text = os.path.relpath(os.fsdecode(path), root) if os.fsdecode(path).startswith(root) else None
    return text and re.sub(r"\.\d+\.tmp|[0-9a-f]{12,}|(?<=gate/)[ab]-\S+?(?=/|$)|work-\w+", "#", text)


def audit(event, args):
    global busy
    if busy or event not in ("open", "os.rename", "os.mkdir", "os.truncate", "os.remove", "os.rmdir"):
        return
    if event == "open" and not (isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)):
        return
    place = args[1] if event == "os.rename" else args[0]
    if not isinstance(place, str | bytes) or "run.log" in os.fsdecode(place) or "progress" in os.fsdecode(place):
        return
    busy = True
    try:
        label = name(place)
        if label:
            point(f"{event} {label}")
    finally:
        busy = False


from agentix.plugins.experiments.progress import Board
from agentix.records import commit, durable
from agentix.cli.app import main

fsync, write_all = os.fsync, durable.write_all


def synced(fd):
    label = name(os.readlink(f"/proc/self/fd/{fd}"))
    if label:
        point(f"fsync {label}")
    fsync(fd)


def written(fd, data):
    label = name(os.readlink(f"/proc/self/fd/{fd}")) or "elsewhere"
    point(f"torn {label}", lambda: os.write(fd, bytes(data)[: len(data) // 2]))
    write_all(fd, data)


def told(method):
    real = getattr(Board, method)

    def wrapped(self, trial_id, *more):
        point(f"{method} {more[0]} {trial_id}")
        return real(self, trial_id, *more)

    setattr(Board, method, wrapped)


os.fsync = synced
durable.write_all = commit.write_all = written
for method in ("begin", "phase", "move"):
    told(method)
sys.addaudithook(audit)
code = main("agentix", ["run", "experiment.yaml", "--id", run_id, "--executor", "local", "--out", f"{root}/runs", "-q"])
Path(root, "points.json").write_text(json.dumps(order))
sys.exit(code)
"""

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


def drive(root: Path, label: str = "", occurrence: int = 0, *, run_id: str = "r") -> int:
    command = [sys.executable, "-c", DRIVER, str(root), label, str(occurrence), run_id]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stdout + done.stderr
    return done.returncode


def outliving(root: Path) -> list[str]:
    """Processes of a run that are still there after they had time to end."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if os.fsencode(root) not in line or int(entry.name) == os.getpid():
                continue
            handle = os.pidfd_open(int(entry.name))
        except OSError:
            continue
        ended, _, _ = select.select([handle], [], [], 20.0)
        os.close(handle)
        found += [] if ended else [line.replace(b"\0", b" ").decode()]
    return found


def points(lab) -> list[str]:
    """Every boundary of an undisturbed run, which is the one to compare with."""
    lab.file(FILE)
    assert drive(lab.root) == 0
    found: list[str] = json.loads((lab.root / "points.json").read_text())
    return list(dict.fromkeys(found))


@pytest.mark.real
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
