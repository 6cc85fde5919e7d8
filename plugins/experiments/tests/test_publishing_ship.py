"""`agentix ship`: what there is of a run goes, once more or for the first time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentix.api import Record, load_run
from agentix.plugins.experiments.engine import ShipRequest, ship_run

HEAD = """
---
kind: Commands
take:
  script: |
    mkdir -p "@/sent"
    echo "$RUN_DIR $LOCAL_PATH $DEST $KEY" >> "@/sent/calls"
    cp -r "$LOCAL_PATH" "@/sent/path"
gate: {script: 'test -e @/open || { echo the bucket is gone >&2; exit 3; }'}
slow: {script: 'echo up > @/up; exec sleep 300'}
---
matrix: {agents: [someone]}
pipeline:
"""
PLAIN = "  per_experiment: [{uses: dataset}, {uses: ship, with: {using: take, dest: 'here/{{.RunID}}'}}]\n"


def write(lab, pipeline: str = PLAIN, name: str = "experiment.yaml") -> Path:
    return lab.file(HEAD.replace("@", str(lab.root)) + pipeline, name)


def ship(lab, file: Path, **more) -> int:
    return ship_run(ShipRequest(run=lab.path(), file=file, **more))


def calls(lab) -> list[list[str]]:
    path = lab.root / "sent/calls"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def test_a_finished_run_is_shipped_again_and_its_reports_are_written_again(lab, capfd) -> None:
    file = write(lab)
    assert lab.run(file) == 0
    (lab.path() / "report.md").unlink()
    results = (lab.path() / "results.jsonl").read_bytes()
    assert ship(lab, file) == 0
    assert (
        calls(lab)
        == [
            [str(lab.path() / ".staging"), str(lab.path() / ".staging/dataset"), "here/r", "lab/r"],
        ]
        * 2
    )
    assert (lab.path() / "report.md").exists()
    assert (lab.path() / "results.jsonl").read_bytes() == results
    assert lab.ran == ["a-someone-1", "b-someone-1"]
    assert json.loads((lab.path() / "progress.json").read_text())["state"] == "finished"
    # The command says nothing itself.
    assert "\nship: dataset (3 files, " in (said := capfd.readouterr().out) and "with the command take\n" in said
    before = lab.bytes()
    assert lab.run(file) == 0
    assert lab.bytes() == before


def test_a_shipment_of_which_the_file_says_that_it_may_fail_is_a_warning(lab, capfd) -> None:
    file = write(lab, "  per_experiment: [{uses: ship, with: {using: gate}, on_failure: warn}]\n")
    assert lab.run(file) == 0
    capfd.readouterr()
    assert ship(lab, file) == 0
    said = capfd.readouterr().out
    assert "\nwarning: ship: exit status 3: the bucket is gone" in said and "step failed" not in said


def test_a_run_that_published_nothing_can_be_shipped_later(lab) -> None:
    assert lab.run(lab.file("matrix: {agents: [someone]}\n", "plain.yaml")) == 0
    assert not (lab.path() / ".staging").exists() and not (lab.path() / ".publishing").exists()
    done = lab.cli("ship", "r", str(write(lab)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "redacting what was not redacted yet" in done.stdout
    rows = (lab.root / "sent/path/data/trials.jsonl").read_text().splitlines()
    assert len(rows) == 2
    assert len(load_run(lab.path() / ".staging").records) == 2


def test_a_shipment_that_fails_is_recorded_and_goes_on_with_agentix_run(lab, capfd) -> None:
    assert lab.run(write(lab)) == 0
    file = write(lab, PLAIN.replace("take", "gate"))
    assert ship(lab, file) == 1
    said = capfd.readouterr().out
    assert "step failed: ship: exit status 3: the bucket is gone" in said and "do it again with: agentix ship" in said
    assert said.count("the bucket is gone") == 1
    assert lab.manifest()["incomplete"] == "ship: exit status 3: the bucket is gone"
    report = (lab.path() / "report.md").read_text()
    assert "**This run did not complete.** ship: exit status 3: the bucket is gone\n" in report
    # What would go is no worse for what has failed before.
    assert ship(lab, file, dry_run=True) == 0
    (lab.root / "open").touch()
    assert lab.run(file) == 0
    assert lab.manifest()["incomplete"] is None
    assert "did not complete" not in (lab.path() / "report.md").read_text()


@pytest.mark.parametrize("again", ["run", "ship"])
def test_what_is_shipped_does_not_say_that_shipping_it_has_failed(lab, again: str) -> None:
    file = write(lab, "  per_experiment: [{uses: ship, with: {using: gate}}]\n")
    assert lab.run(file) == 1
    assert "did not complete" in (lab.path() / "report.md").read_text()
    (lab.root / "open").touch()
    if again == "run":
        assert lab.run(file) == 0
    else:
        assert ship(lab, file) == 0
    staging = lab.path() / ".staging"
    assert not (staging / "report.md").exists()
    assert json.loads((staging / "manifest.json").read_text())["incomplete"] is None
    assert "did not complete" not in (lab.path() / "report.md").read_text()
    # From now on the report is true, and a part of what goes.
    assert ship(lab, file) == 0
    assert (staging / "report.md").read_text() == (lab.path() / "report.md").read_text()


def test_a_dry_run_tells_what_would_go_where_and_records_nothing(lab, capfd) -> None:
    file = write(lab)
    assert lab.run(file) == 0
    capfd.readouterr()
    kept = {name: data for name, data in lab.bytes().items() if not name.startswith((".", "dataset", "steps"))}
    sent = calls(lab)
    assert ship(lab, file, dry_run=True) == 0
    said = capfd.readouterr().out
    files = [p for p in (lab.path() / "dataset").rglob("*") if p.is_file()]
    assert f"ship: would ship dataset ({len(files)} files, " in said
    assert "with the command take to here/r" in said
    assert calls(lab) == sent
    assert kept == {n: d for n, d in lab.bytes().items() if not n.startswith((".", "dataset", "steps"))}
    assert ship(lab, file, dry_run=True, json=True) == 0
    data = json.loads(capfd.readouterr().out)
    (shipment,) = data["shipments"]
    assert shipment["path"] == "dataset" and shipment["destination"] == "here/r" and shipment["trials"] == 2
    assert shipment["bytes"] == sum(p.stat().st_size for p in files) and shipment["files"] == len(files)


def test_a_file_that_only_publishes_is_run_again_too(lab, capfd) -> None:
    file = write(lab, "  per_experiment: [{uses: report}]\n")
    assert lab.run(file) == 0
    later = write(lab, "  per_experiment: [{uses: dataset}]\n", "later.yaml")
    assert ship(lab, later, dry_run=True) == 0
    assert "dataset: 2 rows in dataset" in capfd.readouterr().out
    assert ship(lab, later) == 0
    assert "dataset: 2 rows in dataset" in capfd.readouterr().out
    assert len((lab.path() / "dataset/data/trials.jsonl").read_text().splitlines()) == 2
    assert calls(lab) == []


def test_a_dry_run_that_fails_names_itself_to_be_done_again(lab, capfd) -> None:
    assert lab.run(write(lab)) == 0
    file = write(lab, "  per_experiment: [{uses: ship, with: {using: take, path: nowhere}}]\n")
    capfd.readouterr()
    assert ship(lab, file, dry_run=True) == 1
    assert f"do it again with: agentix ship {lab.path()} {file} --dry-run\n" in capfd.readouterr().out


def test_programs_get_one_object(lab, capfd) -> None:
    file = write(lab)
    assert lab.run(file) == 0
    capfd.readouterr()
    assert ship(lab, file, json=True) == 0
    data = json.loads(capfd.readouterr().out)
    assert [(step["step"], step["ok"]) for step in data["steps"]] == [("dataset", True), ("ship", True)]
    assert data["exit_code"] == 0 and data["run_id"] == "r"
    assert data["withheld"] == {"dropped": 0, "unredacted": {}}


@pytest.mark.parametrize(
    ("pipeline", "why"),
    [
        ("  per_experiment: [{uses: report}]\n", "no step of it publishes anything"),
        ("  per_trial: [{uses: auto}, {uses: ship, with: {using: take}}]\n", "publish when their trial has ended"),
        ("  per_experiment: [{uses: ship, with: {usnig: take}}]\n", "usnig"),
    ],
)
def test_a_file_that_ships_nothing_or_is_wrong_is_a_usage_error(lab, pipeline: str, why: str) -> None:
    assert lab.run(write(lab)) == 0
    done = lab.cli("ship", "r", str(write(lab, pipeline)))
    assert done.returncode == 2
    assert why in done.stderr and "Traceback" not in done.stderr


def test_what_is_no_run_of_an_experiment_is_refused(lab) -> None:
    file = write(lab)
    none = lab.cli("ship", "nothing", str(file))
    assert none.returncode == 2 and "there is no run 'nothing'" in none.stderr
    done = lab.cli(
        "rollout", "--dataset", "harbor", "--dataset-opt", f"path={lab.root}/cases", "--agent", "nop", "--provider",
        "inline", "--id", "other",
    )  # fmt: skip
    assert (lab.root / "runs/other/manifest.json").exists(), done.stderr
    other = lab.cli("ship", "other", str(file))
    assert other.returncode == 2 and "no run of an experiment" in other.stderr


def test_commands_of_the_operator_take_the_place_of_those_in_the_file(lab) -> None:
    assert lab.run(write(lab)) == 0
    trusted = lab.root / "trusted.yaml"
    trusted.write_text(f"kind: Commands\ntake: {{script: 'echo trusted > {lab.root}/trusted.txt'}}\n")
    own = lab.cli("ship", "r", str(write(lab)), "--commands", str(trusted))
    assert own.returncode == 2
    bare = lab.file("matrix: {agents: [someone]}\npipeline:\n" + PLAIN, "bare.yaml")
    done = lab.cli("ship", "r", str(bare), "--commands", str(trusted))
    assert done.returncode == 0, done.stderr
    assert (lab.root / "trusted.txt").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_and_the_run_is_not_complete_before_it_was_done(lab, number: int, code: int) -> None:
    assert lab.run(write(lab)) == 0
    os.mkfifo(lab.root / "up")
    file = write(lab, PLAIN.replace("take", "slow"))
    program = "import sys; from agentix.cli.app import main; sys.exit(main('agentix', sys.argv[1:]))"
    command = [sys.executable, "-c", program, "ship", "r", str(file), "-v"]
    shipping = subprocess.Popen(command, cwd=lab.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert "up" in (lab.root / "up").read_text()
    second = lab.cli("ship", "r", str(file))
    assert second.returncode == 2 and f"another run writes here (process {shipping.pid} on" in second.stderr
    shipping.send_signal(number)
    said, _ = shipping.communicate(timeout=240)
    assert shipping.returncode == code, said
    name = signal.Signals(number).name
    assert f"interrupted by {name}; do it again with: agentix ship" in said
    assert lab.manifest()["incomplete"] == f"interrupted by {name}"
    assert "ship" not in [end["step"] for end in lab.manifest()["ended"]]
    assert lab.run(write(lab)) == 0
    assert lab.manifest()["incomplete"] is None


def test_of_a_run_that_lacks_trials_goes_what_there_is_and_the_report_says_so(lab) -> None:
    file = write(lab)
    lab.script(b_someone_1=[{"code": "HOST_ERROR"}])
    assert lab.run(file, stop_after=1, cases=("*/b",)) == 3
    manifest = lab.manifest() | {"planned": 2}
    (lab.path() / "manifest.json").write_text(json.dumps(manifest))
    done = lab.cli("ship", "r", str(file))
    assert done.returncode == 0, done.stderr
    assert "1 of 2 trials without a result" in done.stdout
    assert "did not complete" in (lab.path() / "report.md").read_text()
    assert lab.run(file) == 3
    assert sorted(lab.records()) == ["a-someone-1", "b-someone-1"]


def test_a_place_that_is_gone_is_made_again(lab) -> None:
    import shutil

    assert lab.run(write(lab, PLAIN.replace("take", "gate"))) == 1
    shutil.rmtree(lab.path() / "dataset")
    shutil.rmtree(lab.path() / ".staging")
    assert lab.run(write(lab)) == 0
    assert (lab.root / "sent/path/README.md").exists() or (lab.root / "sent/path/data").is_dir()
    assert all(isinstance(record, Record) for record in load_run(lab.path() / ".staging"))


def test_a_shipment_that_is_tried_again_is_named_once_on_its_line(lab, capfd) -> None:
    file = write(lab, PLAIN.replace("{uses: ship, with: {using: take", "{uses: ship, retries: 1, with: {using: gate"))
    assert "retries: 1" in file.read_text()
    assert lab.run(file, quiet=False) == 1
    said = capfd.readouterr().out
    assert " ship: exit status 3: the bucket is gone; again in 1 s\n" in said and "ship: ship:" not in said


def test_a_dry_run_tells_where_a_transport_would_send_it_without_its_login(lab, depot, capfd) -> None:
    file = write(lab, "  per_experiment: [{uses: dataset}, {uses: ship_my_store, with: {dest: shelf}}]\n")
    assert lab.run(file) == 0
    capfd.readouterr()
    assert ship(lab, file, dry_run=True) == 0
    assert "with my-store (lab-depot 1.0) to https://depot/shelf/dataset\n" in capfd.readouterr().out
