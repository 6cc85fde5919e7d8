from __future__ import annotations

import json

import pytest


def snapshot(path):
    return {p.relative_to(path): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("arguments", [[], ["--dataset-opt", "broken=task-1"], ["--fail-under", "2"]])
def test_a_finished_run_again_has_the_same_exit_code_and_changes_nothing(toy, arguments):
    first = toy.rollout("--id", "r", *arguments)
    before = snapshot(toy.path / "runs")
    again = toy.rollout("--id", "r", *arguments)
    assert again.code == first.code
    assert "finished already" in again.out
    assert snapshot(toy.path / "runs") == before
    assert len(toy.ran()) == 4 - bool(arguments and "broken" in arguments[1])


def test_only_what_is_missing_runs(toy):
    toy.rollout("--id", "r", "--limit", "2")
    called = toy.rollout("--id", "r")
    assert "2 trials to run, 2 kept" in called.out
    assert sorted(toy.ran()) == ["task-0", "task-1", "task-2", "task-3"]


def test_more_trials_run_just_the_new_ones(toy):
    toy.rollout("--id", "r", "--limit", "1")
    toy.rollout("--id", "r", "--limit", "1", "--trials", "3", "--n-concurrent", "2")
    assert len(toy.ran()) == 3
    assert [line["index"] for line in toy.lines("r")] == [1, 2, 3]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--model", "other"], "model: (none) -> other"),
        (["--agent-opt", "patch=0"], "agent option patch: (none) -> 0"),
        (["--dataset-opt", "content=2"], "case task-0 sha256: 111111111111 -> 222222222222"),
        (["--timeout", "9"], "timeouts agent"),
    ],
)
def test_a_changed_configuration_is_refused_and_can_be_forced(toy, change, said):
    toy.rollout("--id", "r", "--limit", "2")
    called = toy.rollout("--id", "r", *change)
    assert called.code == 2
    assert said in called.err
    assert len(toy.ran()) == 2
    forced = toy.rollout("--id", "r", "--force", *change)
    assert forced.code == 0
    notes = {line["case"]: line.get("notes") for line in toy.lines("r")}
    assert notes["task-0"] is None
    assert notes["task-3"][0].startswith("mixed: ")


def test_an_edited_agent_file_is_a_changed_agent(toy):
    toy.rollout("--id", "r", "--limit", "2")
    with (toy.path / "toy.py").open("a") as file:
        file.write("# edited\n")
    called = toy.rollout("--id", "r")
    assert called.code == 2
    assert "agent sha256" in called.err


def test_infrastructure_failures_run_again_when_asked(toy):
    toy.rollout("--id", "r", "--agent-opt", 'by={"task-1": "unscorable"}', "--agent-opt", "fail=task-2")
    plan = toy.rollout(
        "--id",
        "r",
        "--agent-opt",
        'by={"task-1": "unscorable"}',
        "--agent-opt",
        "fail=task-2",
        "--retry",
        "infra",
        "--dry-run",
    )
    assert "task-1-Agent-1 (again)" in plan.out
    assert "task-2" not in plan.out
    again = toy.rollout(
        "--id", "r", "--agent-opt", 'by={"task-1": "unscorable"}', "--agent-opt", "fail=task-2", "--retry", "infra"
    )
    assert "agentix score runs/r" in again.out
    assert toy.ran().count("task-1") == 2
    assert toy.ran().count("task-2") == 1
    assert len(toy.lines("r")) == 4
    earlier = toy.path / "runs/r/trials/task-1-Agent-1/earlier/1/trial.json"
    assert json.loads(earlier.read_text())["record"]["failure_code"] == "VERIFIER_ERROR"


def test_a_torn_line_is_cut_with_a_notice_and_its_trial_runs_again(toy):
    toy.rollout("--id", "r", "--n-concurrent", "1")
    results = toy.path / "runs/r/results.jsonl"
    results.write_bytes(results.read_bytes()[:-40])
    called = toy.rollout("--id", "r", "--n-concurrent", "1")
    assert called.code == 0
    assert "results.jsonl:4: the last record is torn" in called.out
    assert toy.ran().count("task-3") == 2
    assert len(toy.lines("r")) == 4


def test_damage_in_the_middle_stops_with_file_and_line(toy):
    toy.rollout("--id", "r")
    results = toy.path / "runs/r/results.jsonl"
    lines = results.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1][:20] + b"\n"
    results.write_bytes(b"".join(lines))
    before = results.read_bytes()
    called = toy.rollout("--id", "r")
    assert called.code == 2
    assert "results.jsonl:2" in called.err
    assert results.read_bytes() == before
