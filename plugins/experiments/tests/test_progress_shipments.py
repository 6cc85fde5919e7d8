"""`agentix status` tells every shipment of a run: of which step, what, where to, when, and whether it arrived."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agentix.plugins.experiments.progress import ShipmentLine, ShipmentLog
from agentix.plugins.experiments.progress.shipment_log import read_shipments
from agentix.plugins.experiments.progress.shipments import Shipments

FILE = """
---
kind: Commands
take: {{script: "test ! -e {root}/closed || {{ echo the bucket is gone >&2; exit 3; }}"}}
---
matrix: {{agents: [someone]}}
pipeline:
{body}
"""
WHOLE = """
  per_experiment:
  - {uses: dataset}
  - {uses: ship_my_store, with: {dest: shelf, path: dataset}, on_failure: warn}
  - {uses: ship, with: {using: take, dest: "jobs/{{.RunID}}"}, on_failure: warn}
"""
EACH = """
  per_trial:
  - {uses: auto}
  - {uses: guard, with: {min_reward: 1}, on_violation: drop}
  - {uses: archive}
  - {uses: ship, with: {using: take, dest: "{{.TrialID}}"}}
"""


def write(lab, body: str) -> Path:
    path: Path = lab.file(FILE.format(root=lab.root, body=body))
    return path


def status(lab, *more: str) -> tuple[str, dict]:
    said = lab.cli("status", "r", *more)
    assert said.returncode == 0, said.stderr
    return said.stdout, json.loads(lab.cli("status", "r", "--json", *more).stdout)["shipments"]


def test_shipments_of_the_whole_run_are_listed_with_those_that_failed_and_were_made_again(lab, depot) -> None:
    file = write(lab, WHOLE)
    (lab.root / "closed").touch()
    env = {**os.environ, "PYTHONPATH": str(lab.root / "site")}
    assert lab.run(file) == 0
    (lab.root / "closed").unlink()
    done = lab.cli("ship", "r", str(file), env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    said, data = status(lab)
    whole = data["whole"]
    assert [(line["step"], line["ok"]) for line in whole] == [
        ("ship_my_store", True),
        ("ship", False),
        ("ship_my_store", True),
        ("ship", True),
    ]
    files = [path for path in (lab.path() / "dataset").rglob("*") if path.is_file()]
    first, second, _, last = whole
    assert (first["path"], first["files"], first["bytes"]) == (
        "dataset",
        len(files),
        sum(path.stat().st_size for path in files),
    )
    assert first["destination"] == "https://depot/shelf" and first["with"].startswith("my-store (lab-depot 1.0")
    assert second["message"] == "exit status 3: the bucket is gone" and second["destination"] == "jobs/r"
    assert last["destination"] == "jobs/r" and last["at"] > second["at"] and data["trials"] == []
    assert "step ship: FAILED: exit status 3: the bucket is gone (" in said and " to jobs/r)" in said
    assert said.count("the bucket is gone") == 1
    assert f"step ship_my_store: {len(files)} files, " in said and "to https://depot/shelf (dataset)" in said
    assert "hunter2" not in (lab.path() / "shipments.jsonl").read_text()


def test_shipments_of_trials_are_counted_by_step_with_what_failed_and_what_is_withheld(lab) -> None:
    lab.script(b_someone_2=[{"reward": 0.0}])
    (lab.root / "closed").touch()
    file = lab.file(FILE.format(root=lab.root, body=EACH).replace("[someone]", "[someone], trials: 2"))
    assert lab.run(file) == 1
    said, data = status(lab, "--failures")
    assert "ship, each trial: 0 shipped (0 files, 0 bytes), 3 failed, 1 withheld; the last one to " in said
    assert "    a-someone-1: exit status 3: the bucket is gone" in said
    (lab.root / "closed").unlink()
    assert lab.run(file) == 0
    said, data = status(lab)
    (trials,) = data["trials"]
    archives = list((lab.path() / "archives").iterdir())
    assert (trials["shipped"], trials["failed"], trials["files"]) == (3, 0, 3)
    assert trials["bytes"] == sum(path.stat().st_size for path in archives)
    assert "step ship, each trial: 3 shipped (3 files, " in said and "1 withheld" in said
    assert status(lab, "--case", "cases/b")[1]["trials"][0]["shipped"] == 1
    assert not (lab.path() / ".staging" / "shipments.jsonl").exists()


def test_a_run_that_ships_nothing_has_no_such_file_and_says_nothing(lab) -> None:
    assert lab.run(write(lab, "  per_experiment: [{uses: dataset}]\n")) == 0
    said, data = status(lab)
    assert data == {"whole": [], "trials": []} and "shipments" not in said
    assert not (lab.path() / "shipments.jsonl").exists()


def line(number: int, **more) -> ShipmentLine:
    return ShipmentLine(at=f"2026-01-01T00:00:{number:02d}.000Z", step="s", **{"ok": True, "message": "m", **more})


def test_half_a_line_costs_that_line_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "shipments.jsonl"
    log = ShipmentLog(path)
    log.add(line(1))
    log.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"at":"2026')
    log = ShipmentLog(path)
    log.add(line(2, trial_id="t", case="c", files=0, bytes=0, withheld=3))
    log.close()
    first, second = read_shipments(path)
    assert (first, second.withheld, second.files) == (line(1), 3, 0)


def test_a_disk_that_takes_no_line_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "shipments.jsonl").mkdir()
    ShipmentLog(tmp_path / "shipments.jsonl").add(line(1))
    assert list(read_shipments(tmp_path / "shipments.jsonl")) == []


@pytest.mark.parametrize("count", [3, 25])
def test_only_the_last_shipments_are_shown_and_all_are_told_to_programs(count: int) -> None:
    found = Shipments.of((line(number, message=f"n{number}") for number in range(count)), wanted=lambda _: True)
    shown = list(found.lines(withheld=0))
    assert len(found.to_data()["whole"]) == count
    assert shown[-1].endswith(f"step s: n{count - 1}")
    assert len(shown) == (3 if count == 3 else 21)
