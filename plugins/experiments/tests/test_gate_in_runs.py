"""The gate's memory over whole runs: what is known, what makes it unknown, and what a repair does to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentix.api import content_hash
from agentix.cli.api import exit_codes

CODE = "import sys; from agentix_console import agentix; sys.exit(agentix())"
ADAPTER = """#!/bin/sh
echo "$AGENT_NAME" >> "{asked}"
case "$AGENT_NAME" in oracle) reward=1 ;; *) reward=0 ;; esac
echo $reward > "$OUT_DIR/reward.txt"
"""
GATE = """
kind: Commands
harbor: {uses: harbor.sh}
---
matrix: {agents: [oracle]}
pipeline:
  per_case:
    - uses: admission
      with: {trials: 1}
"""


@pytest.fixture
def asked(lab):
    """Which agents the adapter was asked for since the last look."""
    log = lab.root / "asked.txt"
    adapter = lab.root / "harbor.sh"
    adapter.write_text(ADAPTER.format(asked=log))
    adapter.chmod(0o755)

    def since() -> list[str]:
        found = sorted(log.read_text().split()) if log.exists() else []
        log.unlink(missing_ok=True)
        return found

    return since


def test_a_verdict_holds_for_other_runs_until_a_byte_of_the_adapter_changes(lab, asked):
    file = lab.file(GATE)
    both = ["nop", "nop", "oracle", "oracle"]
    trials = ["oracle", "oracle"]
    assert lab.run(file, "one", executor=None) == exit_codes.OK
    assert asked() == sorted([*both, *trials])
    assert lab.run(file, "two", executor=None) == exit_codes.OK
    assert asked() == trials
    adapter = lab.root / "harbor.sh"
    adapter.write_text(adapter.read_text() + "# edited\n")
    assert lab.run(file, "three", executor=None) == exit_codes.OK
    assert asked() == sorted([*both, *trials])
    assert lab.run(file, "four", executor=None, regate=True) == exit_codes.OK
    assert asked() == sorted([*both, *trials])


def test_a_verdict_is_about_the_bytes_of_a_case(lab, asked):
    file = lab.file(GATE)
    lab.run(file, "one", executor=None)
    asked()
    (lab.root / "cases" / "a" / "instruction.md").write_text("Something else.\n")
    lab.run(file, "two", executor=None)
    assert asked() == ["nop", "oracle", "oracle", "oracle"]


def test_a_verdict_is_about_the_provider_and_its_options(lab):
    for provider in ("local", "inline"):
        pytest.importorskip(f"agentix.providers.{provider}", reason=f"the provider {provider} is not installed")
    executor = lab.root / "executor.py"
    executor.write_text(executor.read_text().replace("executes = True", "executes = True\n    provider = None"))
    lab.script(probe_nop_1=[{"reward": 0.0}])
    text = (
        "matrix: {agents: [oracle]}\nprovider: PROVIDER\npipeline: {per_case: [{uses: admission, with: {trials: 1}}]}\n"
    )

    def probed(run_id: str, provider: str) -> int:
        before = len(lab.ran)
        assert lab.run(lab.file(text.replace("PROVIDER", provider)), run_id) == exit_codes.OK
        return sum(name.startswith("probe") for name in lab.ran[before:])

    assert [probed("one", "local"), probed("two", "local")] == [4, 0]
    assert [probed("three", "inline"), probed("four", "local")] == [4, 0]
    assert [probed("five", "{name: local, pids: 99}"), probed("six", "{name: local, pids: 99}")] == [4, 0]


def test_a_repaired_case_is_recorded_with_its_new_hash_and_a_resumed_run_keeps_it(lab, asked):
    text = GATE.replace(
        "harbor: {uses: harbor.sh}", "harbor: {uses: harbor.sh}\nmend: {script: MEND}\nwhole: {script: WHOLE}"
    )
    text = text.replace("MEND", "'date +%s%N > $CASE_DIR/licence'").replace("WHOLE", "'test -e $CASE_DIR/licence'")
    file = lab.file(text.replace("  per_case:\n", "  per_case:\n    - {uses: whole, fix: mend}\n"))
    assert lab.run(file, "one", executor=None) == exit_codes.OK
    first = {name: record.case_sha256 for name, record in lab.records("one").items()}
    cached = json.loads((lab.root / "runs" / "gate-cache.json").read_text())["verdicts"].values()
    assert {verdict["sha256"] for verdict in cached if verdict["ok"]} == set(first.values())
    original = {content_hash(lab.root / "cases" / name) for name in ("a", "b")}
    assert {verdict["sha256"] for verdict in cached if not verdict["ok"]} == original
    assert {case["sha256"] for case in lab.manifest("one")["cases"]} == set(first.values())
    found = {case["name"]: case["found_sha256"] for case in lab.manifest("one")["cases"]}
    assert found == {name: content_hash(lab.root / "cases" / name) for name in ("a", "b")}
    asked()
    before = lab.bytes("one")
    assert lab.run(file, "one", executor=None) == exit_codes.OK
    assert asked() == [] and lab.bytes("one")["results.jsonl"] == before["results.jsonl"]
    assert not (lab.root / "cases" / "a" / "licence").exists()


def test_two_runs_at_once_leave_a_whole_cache(lab, asked):
    file = lab.file(GATE)
    command = [sys.executable, "-c", CODE, "run", str(file), "--id"]
    env = {**os.environ, "TERM": "dumb"}
    runs = [
        subprocess.Popen([*command, name], cwd=lab.root, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for name in ("one", "two")
    ]
    for run in runs:
        _, told = run.communicate(timeout=240)
        assert run.returncode == exit_codes.OK, told
    cached = json.loads((lab.root / "runs" / "gate-cache.json").read_text())["verdicts"]
    assert len(cached) == 2 and all(verdict["ok"] for verdict in cached.values())
    asked()
    assert lab.run(file, "three", executor=None) == exit_codes.OK
    assert asked() == ["oracle", "oracle"]


def test_a_gate_that_cannot_look_is_an_error_with_a_report_and_no_verdict(lab, asked):
    adapter: Path = lab.root / "harbor.sh"
    adapter.write_text(
        "#!/bin/sh\necho HOST_ERROR > $OUT_DIR/failure.txt; echo the disk is full >> $OUT_DIR/failure.txt\n"
    )
    assert lab.run(lab.file(GATE), executor=None) == exit_codes.FAILED
    report = (lab.path() / "report.md").read_text()
    assert "**This run did not complete.**" in report and "the disk is full" in report and "CASE" not in report
    assert not (lab.root / "runs" / "gate-cache.json").exists()


def test_a_case_that_is_left_out_is_told_at_the_end_and_by_status(lab):
    file = lab.file("""
    kind: Commands
    check: {script: 'echo "too easy"; test "$CASE_NAME" != a'}
    ---
    matrix: {agents: [oracle]}
    pipeline: {per_case: [{uses: check, on_failure: skip}]}
    """)
    done = lab.cli("run", str(file), "--id", "r", "--executor", lab.executor)
    assert done.returncode == exit_codes.OK
    assert "1 case left out by the gate: cases/a" in done.stdout
    said = lab.cli("status", "r").stdout
    assert "did not pass the gate: case cases/a: check: " in said and "too easy" in said
    assert json.loads(lab.cli("status", "r", "--json").stdout)["left_out"].keys() == {"cases/a"}
    assert "the gate" not in lab.cli("status", "r", "--case", "cases/b").stdout
    assert "did not pass the gate: case cases/a" in lab.cli("status", "r", "--case", "cases/a").stdout


def test_of_a_run_that_its_gate_stops_every_number_counts_the_rejected_case_too(lab):
    file = lab.file("""
    kind: Commands
    check: {script: 'test "$CASE_NAME" != a'}
    ---
    matrix: {agents: [oracle]}
    pipeline: {per_case: [{uses: check}], per_experiment: [{uses: report, with: {dest: r.json, format: json}}]}
    """)
    stopped = lab.cli("run", str(file), "--id", "r", "--executor", lab.executor)
    assert stopped.returncode == exit_codes.FAILED
    (total,) = [line for line in stopped.stdout.splitlines() if line.endswith("unrun")]
    status = json.loads(lab.cli("status", "r", "--json").stdout)
    planned = status["planned"]
    assert total.startswith(f"{planned} trials: ")
    assert "cases/a" in status["cases"]
    assert sum(case["of"] for case in status["cases"].values()) == planned
    (row,) = json.loads((lab.path() / "r.json").read_text())["rows"]
    assert row["planned"] == planned


def test_a_case_that_could_not_be_checked_is_not_found_out_and_waits(lab):
    file = lab.file("""
    kind: Commands
    check: {script: 'test "$CASE_NAME" != a || exit 75'}
    last: {script: 'echo done > "$WORK_DIR/../../last"'}
    ---
    matrix: {agents: [someone]}
    pipeline: {per_case: [{uses: check, on_failure: skip}], per_experiment: [{uses: last}]}
    """)
    done = lab.cli("run", str(file), "--id", "r", "--executor", lab.executor)
    assert done.returncode == exit_codes.FAILED, done.stdout
    assert "This run did not complete: 1 case could not be checked: case cases/a: check: " in done.stdout
    assert "expected 2 results, have 1; without a result: a-someone-1" in done.stdout
    assert "coverage 1/2" in done.stdout and "gate:" not in done.stdout
    assert (list(lab.records()), lab.manifest()["planned"], lab.manifest()["rejected"]) == (["b-someone-1"], 2, {})
    assert "1 case could not be checked" in (lab.path() / "report.md").read_text()
    assert not (lab.path() / "last").exists()
    said = lab.cli("status", "r").stdout
    assert "could not be checked: case cases/a: check: " in said and "did not pass" not in said and "1/2" in said
    assert list(json.loads(lab.cli("status", "r", "--json").stdout)["unknown"]) == ["cases/a"]
    file.write_text(file.read_text().replace("|| exit 75", "|| true"))
    assert lab.run(file) == exit_codes.OK
    assert sorted(lab.records()) == ["a-someone-1", "b-someone-1"] and (lab.path() / "last").exists()
    assert lab.manifest()["unknown"] == {} and lab.ran.count("b-someone-1") == 1


def test_a_gate_that_could_check_nothing_says_so(lab):
    file = lab.file("""
    kind: Commands
    check: {script: 'exit 75'}
    ---
    matrix: {agents: [someone]}
    pipeline: {per_case: [{uses: check, on_failure: skip}]}
    """)
    assert lab.run(file) == exit_codes.FAILED
    assert "the gate left out every case: 2 cases could not be checked: " in lab.manifest()["incomplete"]
    assert lab.manifest()["rejected"] == {} and len(lab.manifest()["unknown"]) == 2
