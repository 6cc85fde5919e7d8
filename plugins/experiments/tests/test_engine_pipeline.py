"""Steps after trials and of the whole run."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from agentix.cli.api import exit_codes
from agentix.plugins.experiments.engine import RunRequest

COMMANDS = """
---
kind: Commands
note: {run: ["sh", "-c", "echo $TRIAL_ID >> $WORK_DIR/noted.txt; cat $OUT_DIR/answer.txt"]}
fine: {run: ["true"]}
refuse: {run: ["sh", "-c", "echo not good >&2; exit 1"]}
flaky: {run: ["sh", "-c", "test -e $WORK_DIR/again && exit 0; touch $WORK_DIR/again; exit 75"]}
send: {run: ["sh", "-c", "test -e @/open && echo $RUN_ID >> @/shipped.txt || { echo the bucket is gone; exit 3; }"]}
---
"""


def file(lab, pipeline: str) -> object:
    commands = COMMANDS.replace("@", str(lab.root))
    return lab.file(commands + "matrix: {agents: [someone]}\npipeline:\n" + pipeline)


def test_steps_run_after_each_trial_and_see_what_it_left(lab) -> None:
    assert lab.run(file(lab, "  per_trial: [{uses: auto}, {uses: note}]\n")) == 0
    for case in "ab":
        work = lab.path() / f"trials/{case}-someone-1/steps/note"
        assert (work / "noted.txt").read_text() == f"{case}-someone-1\n"
        assert "42" in (work / "command.log").read_text()


@pytest.mark.parametrize(
    ("policy", "code", "failures", "note", "went_on"),
    [
        ("", 1, ("refuse",), None, False),
        ("on_failure: warn", 0, (), "step refuse: warning: not good", True),
        ("on_failure: skip", 0, (), "step refuse: the steps after it are left out: not good", False),
        ("on_violation: drop", 0, (), "step refuse: dropped: not good", False),
    ],
)
def test_what_becomes_of_a_trial_is_what_the_file_says(
    lab, policy: str, code: int, failures: tuple[str, ...], note: str | None, went_on: bool
) -> None:
    policy = f", {policy}" if policy else ""
    assert lab.run(file(lab, f"  per_trial: [{{uses: auto}}, {{uses: refuse{policy}}}, {{uses: note}}]\n")) == code
    record = lab.records()["a-someone-1"]
    assert record.reward == 1.0
    assert tuple(failure.step for failure in record.step_failures) == failures
    assert record.notes == (() if note is None else (note,))
    assert record.dropped == ("drop" in policy)
    assert (lab.path() / "trials/a-someone-1/steps/note").exists() == went_on


@pytest.mark.parametrize(
    ("reaction", "what"),
    [("warn", "warning: not good"), ("skip", "the steps after it are left out: not good")],
)
def test_a_step_after_a_trial_that_is_let_be_is_told_wherever_one_looks(lab, reaction: str, what: str) -> None:
    asked = file(lab, f"  per_trial: [{{uses: auto}}, {{uses: refuse, on_failure: {reaction}}}]\n")
    done = lab.cli("run", str(asked), "--id", "r", "--executor", lab.executor)
    assert done.returncode == exit_codes.OK
    (line,) = (line for line in done.stdout.splitlines() if "/2] a-someone-1: reward 1.000" in line)
    assert line.endswith(f"; step refuse: {what}")
    assert "2 steps after a trial did not pass, which is no more than a note: agentix status " in done.stdout
    status = lab.cli("status", "r", "--failures").stdout
    assert "nothing failed" in status and f"note: a-someone-1: step refuse: {what}\n" in status
    told = json.loads(lab.cli("status", "r", "--failures", "--json").stdout)
    assert told["failures"] == []
    # They stand in the order in which the trials ended.
    assert sorted(told["notes"], key=lambda note: note["trial_id"]) == [
        {"trial_id": f"{case}-someone-1", "step": "refuse", "note": what} for case in "ab"
    ]
    report = (lab.path() / "report.md").read_text()
    assert "## Notes of steps" in report and f"| a-someone-1 | refuse | {what} |" in report
    assert "Steps that failed" not in report


def test_what_could_not_be_found_out_is_tried_again(lab) -> None:
    assert lab.run(file(lab, "  per_trial: [{uses: auto}, {uses: flaky, retries: 1}]\n"), cases=("a",)) == 0
    assert lab.run(file(lab, "  per_trial: [{uses: auto}, {uses: flaky}]\n"), run_id="s", cases=("a",)) == 1


def test_a_shipment_that_failed_is_tried_again_on_resume_and_the_report_says_so_until_then(lab) -> None:
    text = """
  per_experiment:
  - {uses: report, with: {dest: 'out/{{.RunID}}.json'}}
  - {uses: send}
  - {uses: fine, name: after}
"""
    experiment = file(lab, text)
    assert lab.run(experiment) == 1
    report = lab.path() / "out/r.json"
    assert json.loads(report.read_text())["incomplete"] == "send: the bucket is gone"
    assert not (lab.path() / "report.md").exists()
    assert not (lab.path() / "steps/after").exists()
    lines = (lab.path() / "results.jsonl").read_bytes()
    (lab.root / "open").touch()
    assert lab.run(experiment) == 0
    assert json.loads(report.read_text())["incomplete"] is None
    assert (lab.root / "shipped.txt").read_text() == "r\n"
    assert (lab.path() / "results.jsonl").read_bytes() == lines
    before = lab.bytes()
    assert lab.run(experiment) == 0
    assert lab.bytes() == before
    assert len(lab.ran) == 2


def test_new_results_are_shipped_again(lab) -> None:
    (lab.root / "open").touch()
    experiment = file(lab, "  per_experiment: [{uses: send}]\n")
    assert lab.run(experiment) == 0
    assert lab.run(lab.file(experiment.read_text().replace("[someone]", "[someone, other]"))) == 0
    assert (lab.root / "shipped.txt").read_text() == "r\nr\n"


def test_a_warning_of_the_whole_run_is_no_failure(lab) -> None:
    assert lab.run(file(lab, "  per_experiment: [{uses: send, on_failure: warn}, {uses: fine}]\n")) == 0
    assert (lab.path() / "steps/fine").exists()
    assert [(end["step"], end["ok"], end["warned"]) for end in lab.manifest()["ended"]] == [
        ("send", False, True), ("fine", True, False), ("report", True, False)
    ]  # fmt: skip


def test_post_processing_does_not_hold_the_slot_of_a_trial(lab) -> None:
    # The first trial's step waits for something that only the second trial, in the same one slot, brings about.
    lab.script(b_someone_1=[{}])
    wait = f"""
---
kind: Commands
wait: {{run: ["sh", "-c", "while ! grep -q b-someone {lab.root}/ran.txt; do sleep 0.02; done"], timeout: 30s}}
---
matrix: {{agents: [someone]}}
concurrency: 1
pipeline:
  concurrency: 2
  per_trial: [{{uses: auto}}, {{uses: wait}}]
"""
    assert lab.run(lab.file(wait)) == 0
    assert lab.ran == ["a-someone-1", "b-someone-1"]


def test_the_gate_stops_the_run_with_its_report(lab) -> None:
    assert lab.run(file(lab, "  per_case: [{uses: refuse}]\n")) == 1
    assert lab.ran == []
    manifest = lab.manifest()
    assert set(manifest["rejected"].values()) == {"refuse: not good"}
    assert "did not complete" in (lab.path() / "report.md").read_text()
    # Without results a changed configuration refuses nothing.
    assert lab.run(file(lab, "  per_case: [{uses: fine}]\n")) == 0
    assert lab.manifest()["incomplete"] is None


def test_a_case_that_is_left_out_does_not_run(lab) -> None:
    pipeline = "  per_case: [{uses: only_a, on_failure: skip}]\n"
    text = COMMANDS.replace("note:", "only_a: {run: [sh, -c, 'case $CASE_NAME in a) ;; *) exit 1;; esac']}\nnote:")
    experiment = lab.file(text.replace("@", str(lab.root)) + "matrix: {agents: [someone]}\npipeline:\n" + pipeline)
    assert lab.run(experiment) == 0
    assert list(lab.records()) == ["a-someone-1"]
    before = lab.bytes()
    assert lab.run(experiment) == 0
    assert lab.bytes() == before


def test_show_tells_of_a_trial_what_its_steps_found(lab, capsys: pytest.CaptureFixture[str]) -> None:
    from agentix.cli.app import main

    assert lab.run(file(lab, "  per_trial: [{uses: auto}, {uses: refuse}]\n")) == 1
    capsys.readouterr()
    assert main("agentix", ["show", f"{lab.path()}/a-someone-1"]) == 0
    assert "  step       refuse failed: not good" in capsys.readouterr().out.splitlines()
    assert main("agentix", ["show", str(lab.path())]) == 0
    assert "lab: someone on 2 cases through" in capsys.readouterr().out


def test_that_steps_failed_after_trials_is_said_at_the_end_with_the_exit_code(lab):
    file = lab.file("""
    matrix: {agents: [oracle], trials: 1}
    pipeline: {per_trial: [{uses: guard, with: {max_reward: 0.5}}]}
    """)
    done = lab.cli("run", str(file), "--id", "r", "--executor", lab.executor)
    assert done.returncode == exit_codes.FAILED
    assert "2 steps failed after a trial: agentix status runs/r --failures" in done.stdout
    assert "a-oracle-1: reward 1.0; step guard: reward 1, want <= 0.5" in lab.cli("status", "r", "--failures").stdout


def test_agents_that_ran_once_on_a_case_did_not_run_repeatedly(lab):
    lab.script(a_nop_1=[{"reward": 0.0}])
    file = lab.file("matrix: {agents: [oracle, nop]}")
    once = lab.cli("run", str(file), "--id", "r", "--executor", lab.executor)
    assert once.returncode == exit_codes.OK and "repeatedly" not in once.stdout
    lab.script(a_twice_2=[{"reward": 0.0}])
    file = lab.file("matrix: {agents: [oracle, {name: nop, id: twice, trials: 2}]}")
    again = lab.cli("run", str(file), "--id", "s", "--executor", lab.executor)
    assert "twice: 2 instances ran repeatedly: mean of the best 1.0, of the worst 0.5\n" in again.stdout
    assert "oracle: " not in again.stdout


@pytest.mark.parametrize("reaction", ["warn", "skip"])
def test_what_a_step_of_the_whole_run_says_no_to_is_told_whatever_follows_from_it(lab, reaction) -> None:
    pipeline = f"  per_experiment: [{{uses: refuse, on_failure: {reaction}}}]\n"
    done = lab.cli("run", str(file(lab, pipeline)), "--id", "r", "--executor", lab.executor)
    assert done.returncode == 0
    assert "step refuse: " in done.stdout and "not good" in done.stdout


def test_the_line_to_resume_with_has_every_option_that_decides_what_is_run(lab) -> None:
    path = file(lab, "  per_experiment: [{uses: send}]\n").rename(lab.root / "an experiment.yaml")
    asked = ["--id", "r", "--out", "else where", "--executor", lab.executor, "--case", "cases/[a]", "--limit", "1"]
    done = lab.cli("run", str(path), *asked)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("  resume with: ")]
    words = shlex.split(line.removeprefix("  resume with: "))
    assert words == ["agentix", "run", str(path), *asked]
    (lab.root / "open").touch()
    again = lab.cli(*words[1:])
    assert (again.returncode, "finished" in lab.cli("status", "else where/r").stdout) == (0, True)
    more = {"provider": "local", "provider_options": {"pids": 9, "show": "a b"}, "commands": Path("c.yaml")}
    assert RunRequest(file=Path("e.yaml"), **more).resume_with("r") == (
        "agentix run e.yaml --id r --provider local --provider-opt pids=9 --provider-opt 'show=a b' --commands c.yaml"
    )
