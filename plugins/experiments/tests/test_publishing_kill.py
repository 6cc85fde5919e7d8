"""kill -9 at any boundary of publishing: nothing is half, nothing is doubled, nothing is lost."""

from __future__ import annotations

import json
import random
import signal
import tarfile
from pathlib import Path

import pytest
from killing import drive, outliving

from agentix.api import load_run

FILE = """
---
kind: Commands
take:
  script: |
    mkdir -p "@/sent" && rm -rf "@/sent/$DEST.new" && cp -r "$LOCAL_PATH" "@/sent/$DEST.new"
    rm -rf "@/sent/$DEST" && mv "@/sent/$DEST.new" "@/sent/$DEST"
---
matrix: {agents: [someone]}
concurrency: 2
pipeline:
  per_trial:
  - {uses: auto}
  - {uses: redact}
  - {uses: archive}
  - {uses: ship, with: {using: take, dest: '{{.TrialID}}.tar'}}
  per_experiment: [{uses: dataset}, {uses: ship, name: all, with: {using: take, dest: all, path: .}}]
"""

STAGES = (
    "move redact",
    "torn runs/r/.publishing/ledger.jsonl",
    "os.rename runs/r/trials/a-someone-1/steps/redact",
    "fsync runs/r/.publishing/ledger.jsonl",
    "os.rename runs/r/trials/a-someone-1/steps/archive",
    "os.rename runs/r/.publishing/",
    "move ship",
    "fsync runs/r/results.jsonl",
    "open runs/r/.publishing/",
    "os.rename runs/r/steps/dataset",
    "steps/all",
    "manifest.json",
    "report.md",
)


def lay_out(lab, root: Path) -> None:
    root.mkdir(exist_ok=True)
    if root != lab.root:
        (root / "cases").symlink_to(lab.root / "cases")
        for name in ("executor.py", "script.json"):
            (root / name).write_bytes((lab.root / name).read_bytes())
    text = lab.file(FILE.replace("@", str(root)), "written.yaml").read_text()
    (root / "experiment.yaml").write_text(text)


@pytest.mark.timeout(1200)  # some twenty runs
@pytest.mark.parametrize("seed", range(4))
def test_a_killed_run_ends_in_the_same_publication(lab, seed: int) -> None:
    first = lab.root / "first"
    lay_out(lab, first)
    assert drive(first, executor="executor.py:step") == 0
    labels = list(dict.fromkeys(json.loads((first / "points.json").read_text())))
    missing = [stage for stage in STAGES if not any(stage in label for label in labels)]
    assert not missing, f"no boundary was seen in {missing} of {labels}"
    draw = random.Random(seed)
    stages = [draw.choice([label for label in labels if stage in label]) for stage in STAGES[seed::4]]
    published = [label for label in labels if ".staging" in label or ".publishing" in label or "steps/" in label]
    labels = [*stages, *draw.sample(published, 2)]
    died = [sweep(lab, label, number, like=first) for number, label in enumerate(labels)]
    assert sum(died) >= len(labels) - 1, dict(zip(labels, died, strict=True))


def sweep(lab, label: str, number: int, *, like: Path) -> bool:
    root = lab.root / f"sweep-{number}"
    lay_out(lab, root)
    died = drive(root, label, 1, executor="executor.py:step") == -signal.SIGKILL
    assert not outliving(root), f"{label}: something outlives the run"
    whole(root / "runs/r", f"{label} (died: {died}) before the resume")
    assert drive(root, executor="executor.py:step") == 0, label
    run = root / "runs/r"
    whole(run, label)
    assert names(run / ".staging") == names(like / "runs/r/.staging"), label
    assert names(root / "sent") == names(like / "sent"), label
    for place in (run / ".staging", root / "sent/all"):
        assert sorted(r.trial_id for r in load_run(place)) == ["a-someone-1", "b-someone-1"], label
    assert len((run / "dataset/data/trials.jsonl").read_text().splitlines()) == 2, label
    assert [p.name for p in (run / ".publishing").iterdir()] == ["ledger.jsonl"], label
    if number % 2:
        return died
    # Once more, from where everything is done.
    assert drive(root, label.replace("steps/redact", "steps/dataset"), 1, ship=True) in (0, -signal.SIGKILL)
    assert drive(root, ship=True) == 0, label
    assert names(run / ".staging") == sorted([*names(like / "runs/r/.staging"), "report.md"]), label
    return died


def whole(run: Path, label: str) -> None:
    """Nothing that is published is half of anything."""
    for place in (run, run / ".staging", run.parent.parent / "sent"):
        for archive in [*place.glob("archives/*.tar"), *place.glob("*.tar")]:
            with tarfile.open(archive) as file:
                assert len([m for m in file if m.isfile()]) >= 3, f"{label}: {archive}"
    for trial in (run / ".staging/trials").glob("*"):
        assert json.loads((trial / "trial.json").read_text())["record"]["trial_id"] == trial.name, label
        assert (trial / "out/answer.txt").read_text() == "42", label


def names(place: Path) -> list[str]:
    return sorted(str(p.relative_to(place)) for p in place.rglob("*"))
