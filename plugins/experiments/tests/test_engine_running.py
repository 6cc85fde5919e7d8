"""An experiment from its file to its exit code."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from agentix.api import RunChanged, RunError, RunLocked, UsageError
from agentix.cli.api import ExperimentWriter, exit_codes, parse_retry
from agentix.plugins.experiments.documents import ExperimentError

KEYS = [
    "schema_version", "trial_id", "case", "case_sha256", "agent", "index", "attempts", "reward", "seconds", "at"
]  # fmt: skip


def test_five_lines_run(lab) -> None:
    file = lab.file("matrix: {agents: [someone], trials: 2}\n")
    assert lab.run(file) == 0
    assert list(lab.records()) == ["a-someone-1", "a-someone-2", "b-someone-1", "b-someone-2"]
    line = json.loads((lab.path() / "results.jsonl").read_text().splitlines()[0])
    assert [key for key in KEYS if key in line] == [key for key in line if key in KEYS]
    assert line["case"].endswith("cases/a")
    assert line["case_sha256"] == lab.manifest()["cases"][0]["sha256"]
    assert (lab.path() / "report.md").exists()
    assert (lab.path() / "experiment.yaml").read_bytes() == file.read_bytes()


def test_a_finished_run_is_left_byte_for_byte_with_the_same_exit_code(lab) -> None:
    lab.script(a_someone_1=[{"code": "ENV_FAILED"}])
    file = lab.file("matrix: {agents: [someone]}\n")
    assert lab.run(file) == 3
    before = lab.bytes()
    assert lab.run(file) == 3
    assert lab.bytes() == before
    assert len(lab.ran) == 2


def test_a_larger_matrix_runs_only_what_is_new(lab) -> None:
    assert lab.run(lab.file("matrix: {agents: [someone]}\n")) == 0
    assert lab.run(lab.file("matrix: {agents: [someone, other], trials: 2}\nconcurrency: 3\n")) == 0
    assert Counter(lab.ran) == Counter(
        {f"{case}-{agent}-{i}" for case in "ab" for agent in ("someone", "other") for i in (1, 2)}
    )
    assert lab.manifest()["planned"] == 8
    assert [session["n_concurrent"] for session in lab.manifest()["sessions"]] == [1, 3]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("matrix: {agents: [{name: someone, options: {effort: low}}]}", "agent someone option effort: high -> low"),
        ("limits: {timeout: 2m}", "limits timeout: 60.0 -> 120.0"),
    ],
)
def test_another_configuration_is_refused_field_by_field_and_mixed_when_forced(lab, change: str, said: str) -> None:
    base = {"matrix": "matrix: {agents: [{name: someone, options: {effort: high}}]}", "limits": "limits: {timeout: 1m}"}
    assert lab.run(lab.file("\n".join(base.values()))) == 0
    changed = lab.file("\n".join({**base, change.split(":")[0]: change}.values()).replace("]}", "], trials: 2}"))
    with pytest.raises(RunChanged, match=said):
        lab.run(changed)
    assert len(lab.ran) == 2
    assert lab.run(changed, force=True) == 0
    assert lab.manifest()["mixed"] == [said]
    assert lab.records()["a-someone-2"].notes == (f"mixed: {said}",)
    assert lab.records()["a-someone-1"].notes == ()


def test_an_edited_case_is_refused(lab) -> None:
    file = lab.file("matrix: {agents: [someone]}\n")
    assert lab.run(file) == 0
    (lab.root / "cases/a/instruction.md").write_text("Something else.\n")
    with pytest.raises(RunChanged, match="case a sha256"):
        lab.run(file)


def test_a_case_that_is_edited_while_the_run_goes_on_runs_as_it_was(lab) -> None:
    spy = lab.root / "spy.sh"
    spy.write_text(
        '#!/bin/sh\nsed -i s/hello/bye/ "$PWD_CASE/instruction.md"\n'
        'cat "$CASE_DIR/instruction.md" > "$OUT_DIR/seen.txt"; echo 1 > "$OUT_DIR/reward.txt"\n'
    )
    spy.chmod(0o755)
    file = lab.file(f"""
        ---
        kind: Commands
        spy: {{script: "PWD_CASE={lab.root}/cases/a exec {spy}"}}
        ---
        matrix: {{agents: [someone], trials: 2}}
        cases: [{{path: cases/a}}]
    """)
    assert lab.run(file, executor="spy") == 0
    seen = [(lab.path() / f"trials/a-someone-{n}/out/seen.txt").read_text() for n in (1, 2)]
    assert seen == ["Write hello into hello.txt.\n"] * 2


def test_retry_runs_infrastructure_failures_again_and_keeps_what_was(lab) -> None:
    lab.script(a_someone_1=[{"code": "HOST_ERROR"}, {}], b_someone_1=[{"code": "AGENT_FAILED"}])
    file = lab.file("matrix: {agents: [someone]}\n")
    assert lab.run(file) == 3
    assert lab.run(file) == 3
    assert lab.run(file, retry=parse_retry(["infra"])) == 0
    assert lab.ran == ["a-someone-1", "b-someone-1", "a-someone-1"]
    assert lab.records()["a-someone-1"].reward == 1.0
    assert lab.records()["b-someone-1"].failure_code == "AGENT_FAILED"
    earlier = json.loads((lab.path() / "trials/a-someone-1/earlier/1/trial.json").read_text())
    assert earlier["record"]["failure_code"] == "HOST_ERROR"
    assert lab.run(file, retry=parse_retry(["AGENT_FAILED"])) == 0
    assert lab.ran[-1] == "b-someone-1"


def test_a_run_has_one_writer(lab) -> None:
    file = lab.file("matrix: {agents: [someone]}\n")
    with ExperimentWriter(lab.path()), pytest.raises(RunLocked, match="another run writes here"):
        lab.run(file)
    assert lab.run(file) == 0


def test_a_rollout_s_run_is_not_taken_for_an_experiment_s(lab) -> None:
    lab.path().mkdir(parents=True)
    (lab.path() / "manifest.json").write_text(
        json.dumps({"run_id": "r", "dataset": {"ref": "d"}, "agent": {"ref": "a"}, "provider": {"ref": "p"}})
    )
    with pytest.raises(RunError, match="no run of an experiment"):
        lab.run(lab.file("matrix: {agents: [someone]}\n"))


def test_a_torn_line_is_cut_and_its_trial_runs_again(lab) -> None:
    file = lab.file("matrix: {agents: [someone]}\n")
    assert lab.run(file) == 0
    results = lab.path() / "results.jsonl"
    results.write_bytes(results.read_bytes()[:-40])
    assert lab.run(file) == 0
    assert lab.ran == ["a-someone-1", "b-someone-1", "b-someone-1"]
    assert len(results.read_text().splitlines()) == 2


def test_a_damaged_line_in_the_middle_stops_with_its_place_and_is_left(lab) -> None:
    file = lab.file("matrix: {agents: [someone]}\n")
    assert lab.run(file) == 0
    results = lab.path() / "results.jsonl"
    damaged = b"{" + results.read_bytes()
    results.write_bytes(damaged)
    with pytest.raises(RunError, match=r"results\.jsonl:1: not a record"):
        lab.run(file)
    assert results.read_bytes() == damaged


def test_the_run_stops_after_failures_of_one_cause_and_goes_on_later(lab) -> None:
    lab.script(every=[{"code": "HOST_ERROR", "message": "the engine is gone"}])
    file = lab.file("matrix: {agents: [someone], trials: 10}\n")
    assert lab.run(file) == 1
    assert len(lab.ran) == 5
    assert "did not complete" in (lab.path() / "report.md").read_text()
    assert "the engine is gone" in lab.manifest()["incomplete"]
    lab.script()
    assert lab.run(file, retry=parse_retry(["infra"])) == 0
    assert len(lab.records()) == 20
    assert lab.manifest()["incomplete"] is None
    assert "did not complete" not in (lab.path() / "report.md").read_text()


def test_one_trial_whose_executor_raises_does_not_end_the_others(lab) -> None:
    lab.script(a_someone_1=[{"raise": "unexpected"}])
    assert lab.run(lab.file("matrix: {agents: [someone], trials: 4}\n")) == 3
    record = lab.records()["a-someone-1"]
    assert (record.failure_code, record.failure_detail) == ("HOST_ERROR", "executor")
    assert "RuntimeError: unexpected" in (record.failure_message or "")
    assert sum(r.reward == 1 for r in lab.records().values()) == 7


def test_costs_are_known_by_the_declared_price_and_capped(lab) -> None:
    lab.script(every=[{"tokens": 500_000}])
    file = lab.file("""
        ---
        kind: LLMSpec
        name: opus
        model: m-1
        price: {input: 1.0, output: 3.0}
        ---
        matrix: {agents: [someone], llm_specs: [opus], trials: 5}
    """)
    assert lab.run(file, max_cost_usd=6.5) == 1
    assert {record.usage.cost_usd for record in lab.records().values() if record.usage} == {2.0}
    assert len(lab.records()) == 3
    assert "--max-cost-usd" in lab.manifest()["incomplete"]


def test_a_key_is_looked_up_when_needed_and_kept_nowhere(lab, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-canary-5417"
    monkeypatch.setenv("LAB_KEY", secret)
    lab.script(every=[{"key": True}])
    file = lab.file("""
        ---
        kind: LLMSpec
        name: opus
        model: m-1
        api_key_env: LAB_KEY
        ---
        matrix: {agents: [someone], llm_specs: [opus]}
    """)
    assert lab.run(file) == 0
    assert (lab.root / "key.txt").read_text() == secret
    assert not [name for name, data in lab.bytes().items() if secret.encode() in data]


def test_which_images_trials_ran_in_is_kept_with_the_case(lab) -> None:
    lab.script(a_someone_1=[{"image": "sha256:1"}], a_someone_2=[{"image": "sha256:2"}])
    assert lab.run(lab.file("matrix: {agents: [someone], trials: 2}\n")) == 0
    assert [case["image_digests"] for case in lab.manifest()["cases"]] == [["sha256:1", "sha256:2"], []]


def test_what_is_wrong_is_told_at_once_before_anything_runs(lab) -> None:
    file = lab.file("""
        matrix: {agents: [oracel]}
        provider: {name: locl}
        pipeline:
          per_trial: [{uses: rollot}]
    """)
    with pytest.raises(ExperimentError) as error:
        lab.run(file, executor="rollout")
    text = str(error.value)
    assert "3 problems" in text
    assert "did you mean 'oracle'" in text
    assert "did you mean 'rollout'" in text
    assert "locl" in text
    assert not (lab.root / "runs").exists()


def test_a_dry_run_says_what_would_run_and_why_the_rest_would_not(lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.script(a_someone_1=[{"code": "HOST_ERROR"}])
    assert lab.run(lab.file("matrix: {agents: [someone]}\n")) == 3
    before = lab.bytes()
    file = lab.file("matrix: {agents: [someone], trials: 2}\n")
    capsys.readouterr()
    assert lab.run(file, dry_run=True, cases=("a",)) == 0
    said = capsys.readouterr().out.splitlines()
    assert "  a-someone-1: not run: it has a result, HOST_ERROR; --retry HOST_ERROR runs it again" in said
    assert "  a-someone-2" in said
    assert any(line.endswith("cases/b: left out by --case or --limit") for line in said)
    assert lab.bytes() == before


def test_below_the_wanted_mean_is_a_failure(lab) -> None:
    lab.script(every=[{"reward": 0.4}])
    file = lab.file("matrix: {agents: [someone]}\n")
    assert lab.run(file, fail_under=0.5) == 1
    assert lab.run(file, fail_under=0.4) == 0


def test_an_executor_that_is_none_is_refused(lab) -> None:
    with pytest.raises(UsageError, match="--executor reprot"):
        lab.run(lab.file("matrix: {agents: [someone]}\n"), executor="reprot")
    with pytest.raises(UsageError, match="brings its own sandboxes"):
        lab.run(lab.file("matrix: {agents: [someone]}\n"), provider="local")


def test_failures_of_one_cause_in_the_last_trials_stop_nothing(lab) -> None:
    lab.script(every=[{"code": "HOST_ERROR"}])
    assert lab.run(lab.file("matrix: {agents: [someone, other, third], trials: 1}\n"), cases=("a",), stop_after=3) == 3
    assert lab.manifest()["incomplete"] is None


def test_one_case_under_two_names_counts_as_two(lab):
    lab.script(other_oracle_1=[{"reward": 0.0}])
    file = lab.file("cases: [{path: cases/a}, {path: cases/a, id: other}]\nmatrix: {agents: [oracle]}\n")
    assert lab.run(file) == exit_codes.OK
    assert {r.trial_id: r.case for r in lab.records().values()} == {
        "a-oracle-1": "cases/a",
        "other-oracle-1": "cases/a (other)",
    }
    assert "repeatedly" not in lab.cli("run", str(file), "--id", "r", "--executor", lab.executor).stdout
    cases = json.loads(lab.cli("status", "r", "--json").stdout)["cases"]
    assert {label: (count["done"], count["of"]) for label, count in cases.items()} == {
        "cases/a": (1, 1),
        "cases/a (other)": (1, 1),
    }
    for asked in ("oth", "a (o"):
        assert json.loads(lab.cli("status", "r", "--case", asked, "--json").stdout)["cases"].keys() == {
            "cases/a (other)"
        }
    file = lab.file("cases: [{path: cases/a, id: first}, {path: cases/b}]\nmatrix: {agents: [oracle]}\n")
    assert lab.run(file, "s") == exit_codes.OK
    assert lab.cli("status", "s", "--case", "first").stdout.splitlines()[1] == "1/1 trials done"


def test_another_terminal_sees_a_run_whose_cases_are_being_fetched_and_none_that_could_not_begin(lab):
    lab.case("c")
    file = lab.file("""
    kind: Commands
    source_git: {script: 'cp -r cases "$LOCAL_PATH/"; touch fetching; until test -e go; do sleep 0.01; done'}
    ---
    cases: [{source: git, repo: "https://example.org/cases", path: cases/c}]
    matrix: {agents: [oracle]}
    """)
    command = [str(Path(sys.executable).parent / "agentix"), "run", str(file), "--id", "r", "--executor", lab.executor]
    running = subprocess.Popen(command, cwd=lab.root, stdout=subprocess.DEVNULL)
    try:
        progress = lab.path() / "progress.json"
        while not ((lab.root / "fetching").exists() and progress.exists()):
            assert running.poll() is None
        said = lab.cli("status", "r")
        assert (said.returncode, said.stdout.splitlines()[0]) == (0, "r (resolving)")
    finally:
        (lab.root / "go").touch()
    assert running.wait(240) == exit_codes.OK
    assert lab.cli("status", "r").stdout.startswith("r (finished)\n1/1 trials done\n")
    shutil.rmtree(lab.root / "cases" / "c")
    assert lab.cli("run", str(file), "--id", "s").returncode == exit_codes.USAGE
    assert lab.cli("status", "s").returncode == exit_codes.USAGE
