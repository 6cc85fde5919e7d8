"""A run that ends at its gate, whichever way: from there on there is something to report, and it is reported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from agentix.api import HostError
from agentix.cli.api import exit_codes

PROGRAM = "import sys; from agentix.cli.app import main; sys.exit(main('agentix', sys.argv[1:]))"
WAITING = """
    kind: Commands
    look: {{script: '{script}'}}
    ---
    matrix: {{agents: [someone]}}
    pipeline: {{per_case: [{{uses: look}}]}}
"""
FILES = {"experiment.yaml", "manifest.json", "progress.json", "report.md", "results.jsonl", "run.log"}


def interrupt(lab, body: str, number: int) -> str:
    os.mkfifo(lab.root / "up")
    file = lab.file(body)
    command = [sys.executable, "-c", PROGRAM, "run", str(file), "--id", "r", "--executor", lab.executor]
    run = subprocess.Popen(command, cwd=lab.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert "up" in (lab.root / "up").read_text()
    (lab.root / "up").unlink()
    run.send_signal(number)
    said, _ = run.communicate(timeout=120)
    assert run.returncode == exit_codes.of_signal(number), said
    return said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_the_gate_is_reported_and_the_run_goes_on_later(lab, number: signal.Signals) -> None:
    waits = WAITING.format(script=f"echo up > {lab.root}/up; exec sleep 300")
    said = interrupt(lab, waits, number)
    there = {path.name for path in lab.path().iterdir() if path.is_file()}
    assert there >= FILES
    assert f"**This run did not complete.** interrupted by {number.name}" in (lab.path() / "report.md").read_text()
    assert "results: runs/r/results.jsonl" in said
    assert (lab.manifest()["incomplete"], lab.records()) == (f"interrupted by {number.name}", {})
    assert json.loads((lab.path() / "progress.json").read_text())["state"] == "interrupted"
    assert lab.run(lab.file(WAITING.format(script="true"))) == exit_codes.OK
    assert len(lab.records()) == 2
    assert "did not complete" not in (lab.path() / "report.md").read_text()


def test_a_declared_report_is_the_one_that_is_written(lab) -> None:
    body = WAITING.format(script=f"echo up > {lab.root}/up; exec sleep 300")
    body = body.replace("{uses: look}]", "{uses: look}], per_experiment: [{uses: report, with: {dest: said.json}}]")
    body = body.replace("said.json", "said.json, format: json")
    interrupt(lab, body, signal.SIGTERM)
    assert "interrupted by SIGTERM" in (lab.path() / "said.json").read_text()
    assert not (lab.path() / "report.md").exists()


def test_a_signal_at_the_gate_of_a_resume_keeps_what_was_measured(lab) -> None:
    ends = "look}], per_experiment: [{uses: bad}]}"
    first = WAITING.format(script="true").replace("look}]}", ends).replace("---", "bad: {script: exit 1}\n    ---")
    assert lab.run(lab.file(first)) == exit_codes.FAILED
    before, planned = (lab.path() / "results.jsonl").read_bytes(), lab.manifest()["planned"]
    interrupt(lab, WAITING.format(script=f"echo up > {lab.root}/up; exec sleep 300"), signal.SIGINT)
    assert (lab.path() / "results.jsonl").read_bytes() == before
    assert (lab.manifest()["incomplete"], lab.manifest()["planned"]) == ("interrupted by SIGINT", planned)
    assert "interrupted by SIGINT" in (lab.path() / "report.md").read_text()


def test_a_signal_at_the_gate_leaves_a_finished_run_as_it_is(lab) -> None:
    assert lab.run(lab.file(WAITING.format(script="true"))) == exit_codes.OK
    before = lab.bytes()
    interrupt(lab, WAITING.format(script=f"echo up > {lab.root}/up; exec sleep 300"), signal.SIGINT)
    after = lab.bytes()
    assert {name: after[name] for name in FILES} == {name: before[name] for name in FILES}


@pytest.mark.parametrize("kind", [RuntimeError, HostError])
def test_an_error_at_the_gate_is_reported(lab, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]) -> None:
    async def wrong(*_: object, **__: object) -> None:
        raise kind("odd")

    monkeypatch.setattr("agentix.plugins.experiments.gate.running.CaseCheck.run", wrong)
    with pytest.raises(kind, match="odd"):
        lab.run(lab.file(WAITING.format(script="true")))
    assert "**This run did not complete.**" in (lab.path() / "report.md").read_text()
    assert "odd" in lab.manifest()["incomplete"]
    assert {path.name for path in lab.path().iterdir() if path.is_file()} >= FILES


def test_an_error_after_the_gate_is_reported(lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object, **__: object) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr("agentix.plugins.experiments.engine.flow.what_is_left", wrong)
    with pytest.raises(RuntimeError, match="odd"):
        lab.run(lab.file(WAITING.format(script="true")))
    assert "RuntimeError: odd" in (lab.path() / "report.md").read_text()
