"""What must not leave this machine, and tries to: of other trials, of other times, and in other words."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from published import MODEL, SHIP, holding, names, write

from agentix.api import load_run

LEAVES = ("out/answer.txt", "score.json", "trial.json")


def test_a_step_that_ships_each_trial_cannot_reach_others_that_may_still_be_dropped(lab) -> None:
    os.mkfifo(lab.root / "staged")
    os.mkfifo(lab.root / "shipped")
    file = write(
        lab,
        """
  concurrency: 2
  per_trial:
  - {uses: auto}
  - {uses: redact}
  - {uses: archive}
  - {uses: hold, on_violation: drop}
  - {uses: ship, name: all, with: {using: take, dest: 'all-{{.TrialID}}', path: trials}, on_failure: warn}
  - {uses: ship, name: own, with: {using: take, dest: '{{.TrialID}}', path: 'trials/{{.TrialID}}/out'}}
  - {uses: ship, name: tar, with: {using: take, dest: 'tar', path: 'archives/{{.TrialID}}.tar'}}
  - {uses: ship, name: end, with: {using: end}}
""",
        commands="""
hold: {script: 'case $TRIAL_ID in a-*) cat @/staged;; *) echo > @/staged; cat @/shipped; exit 1;; esac'}
end: {script: 'echo > @/shipped'}
""",
    )
    assert lab.run(file) == 0
    assert lab.records()["b-someone-1"].dropped
    assert sorted(p.name for p in (lab.root / "sent").iterdir()) == ["a-someone-1", "tar"]
    assert names(lab.root / "sent/a-someone-1/path") == ["answer.txt"]
    for sent in (lab.root / "sent").iterdir():
        assert names(sent / "run") == ["archives/a-someone-1.tar", *(f"trials/a-someone-1/{name}" for name in LEAVES)]
    assert [p.name for p in (lab.path() / ".publishing").iterdir()] == ["ledger.jsonl"]
    assert "is not of this trial alone" in (lab.path() / "run.log").read_text()


DIES = """
import os, sys
from agentix.plugins.experiments.engine.published_steps import PublishedSteps

put_together = PublishedSteps._assemble

async def and_no_further(self, runner):
    await put_together(self, runner)
    os.kill(os.getpid(), 9)

PublishedSteps._assemble = and_no_further
from agentix.cli.app import main
sys.exit(main("agentix", sys.argv[1:]))
"""


def test_what_was_made_before_a_rule_was_added_is_made_anew_although_a_session_was_killed_between(lab) -> None:
    fill(lab, 'result["patch"] = "+ OPS-12345 here\\n"')
    text = """
  per_trial: [{uses: auto}, {uses: redact%s}]
  per_experiment: [{uses: dataset}, {uses: archive, with: {shard: 1}}, {uses: ship, with: {using: %s, dest: x}}]
"""
    assert lab.run(write(lab, text % ("", "gone"))) == 1
    assert holding(lab.path() / "dataset", b"OPS-12345")
    file = write(lab, text % (", with: {extra_patterns: ['OPS-[0-9]{3,9}']}", "take"))
    words = ["run", str(file), "--id", "r", "--executor", lab.executor, "--force"]
    killed = subprocess.run([sys.executable, "-c", DIES, *words], cwd=lab.root, capture_output=True, check=False)
    assert killed.returncode == -9, killed.stdout + killed.stderr
    done = lab.cli(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert names(lab.root / "sent/x/run") and not holding(lab.root / "sent", b"OPS-12345")
    assert not holding(lab.path() / ".staging", b"OPS-12345") and not holding(lab.path() / "dataset", b"OPS-12345")
    before = lab.bytes()
    assert lab.cli(*words[:-1]).returncode == 0
    assert lab.bytes() == before


def fill(lab, code: str) -> None:
    """Have the executor run this too, with `out`, the trial's `result` and its `trial`."""
    path = lab.root / "executor.py"
    more = "exec((HERE / 'fill.py').read_text(), {'out': work.directory / 'out', 'result': result, 'trial': trial})"
    path.write_text(path.read_text().replace('write_text("42")\n', f'write_text("42")\n        {more}\n'))
    (lab.root / "fill.py").write_text(code)


def test_a_run_is_shipped_by_a_file_whose_steps_are_called_otherwise_and_nothing_old_goes(lab) -> None:
    fill(lab, 'result["patch"] = "+ OPS-12345 here\\n"')
    first = """
  per_trial: [{uses: auto}, {uses: redact}]
  per_experiment: [{uses: dataset}, {uses: archive, with: {shard: 1}}, {uses: ship, with: {using: take, dest: x}}]
"""
    assert lab.run(write(lab, first)) == 0
    second = """
  per_trial: [{uses: auto}, {uses: redact, with: {extra_patterns: ['OPS-[0-9]{3,9}']}}]
  per_experiment:
  - {uses: ship, name: early, with: {using: take, dest: early, path: .}}
  - {uses: dataset, name: rows}
  - {uses: ship, with: {using: take, dest: y}}
"""
    done = lab.cli("ship", "r", str(write(lab, second)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "dataset/data/trials.jsonl" in names(lab.root / "sent/y/run")
    for sent in ("early", "y"):
        assert names(lab.root / "sent" / sent) and not holding(lab.root / "sent" / sent, b"OPS-12345")
    # What the file does not make anew goes on being published where it is still true.
    third = second.replace("name: rows", "name: other, with: {dir: more}")
    done = lab.cli("ship", "r", str(write(lab, third)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"dataset", "more"} <= {p.name for p in (lab.path() / ".staging").iterdir()}


def test_a_trial_keeps_its_name_and_its_failure_where_a_secret_is_the_same_word(lab, monkeypatch) -> None:
    monkeypatch.setenv("LAB_TOKEN", "someone-1")
    monkeypatch.setenv("LAB_PASSWORD", "HOST_ERROR")
    lab.script(every=[{"code": "HOST_ERROR", "message": "someone-1 said no"}])
    lab.run(write(lab, "  per_experiment: [{uses: dataset}]\n"))
    # They may end in any order.
    assert sorted((r.trial_id, r.failure_code, r.failure_message) for r in lab.records().values()) == [
        (name, "HOST_ERROR", "*** said no") for name in ("a-someone-1", "b-someone-1")
    ]
    assert sorted(p.name for p in (lab.path() / "trials").iterdir()) == ["a-someone-1", "b-someone-1"]


KEY = "kq7Zt0vWn3yR8mBx"
LEFT = f"""
import gzip
(out / "core").write_bytes(b"\\0{KEY}")
(out / "log.gz").write_bytes(gzip.compress(b"{KEY}"))
(out / "{KEY}.txt").write_text("{KEY}")
"""


def test_a_file_that_says_that_a_model_needs_no_key_publishes_nothing_of_trials_that_had_one(lab, monkeypatch) -> None:
    monkeypatch.setenv("THE_KEY", KEY)
    lab.script(every=[{"key": True}])
    fill(lab, LEFT)
    matrix = "{agents: [someone], llm_specs: [m]}"
    assert lab.run(write(lab, "  per_trial: [{uses: auto}]\n", matrix=matrix, head=MODEL)) == 0
    monkeypatch.delenv("THE_KEY")
    file = write(lab, SHIP, matrix=matrix, head=MODEL.replace("api_key_env: THE_KEY\n", ""))
    done = lab.cli("ship", "r", str(file))
    assert done.returncode == 1 and "m had one when the trial ran, and in the file it has none" in done.stdout
    assert not (lab.root / "sent").exists() and names(lab.path() / ".staging/trials") == []


def test_what_was_taken_out_stays_out_when_a_key_is_replaced_by_another_one(lab, monkeypatch) -> None:
    fill(lab, LEFT + f'(out / "log").write_text("{OLD}"); result["agent_version"] = "1 {OLD}"')
    assert lab.run(lab.file("matrix: {agents: [someone]}\n", "plain.yaml")) == 0
    monkeypatch.setenv("LAB_TOKEN", KEY)
    monkeypatch.setenv("LAB_PASSWORD", OLD)
    file = write(lab, "  per_trial: [{uses: auto}, {uses: archive}]\n" + SHIP.replace("dest: x", "dest: x, path: ."))
    for token in (KEY, "another-key-altogether", "and-the-one-after-that", None):
        monkeypatch.setenv("LAB_TOKEN", token) if token else monkeypatch.delenv("LAB_TOKEN")
        shutil.rmtree(lab.root / "sent", ignore_errors=True)
        done = lab.cli("ship", "r", str(file))
        assert done.returncode == 0, done.stdout + done.stderr
        assert names(lab.root / "sent/x/run/trials/a-someone-1") == ["out/answer.txt", "out/log", "out/redacted.txt",
            "score.json", "trial.json"]  # fmt: skip
        assert not holding(lab.root / "sent", KEY.encode()) and not holding(lab.root / "sent", OLD.encode())
        (record, _) = load_run(lab.path() / ".staging")
        assert (
            record.redaction["known_value"] == 3
            and record.agent_version == "1 ***"
            and record.redaction["refused_files"] == 2
        )
        monkeypatch.delenv("LAB_PASSWORD", raising=False)
    # What was redacted is gone, and with it the knowledge of what was taken out.
    shutil.rmtree(lab.path() / ".staging")
    done = lab.cli("ship", "r", str(file))
    assert done.returncode == 1 and "Set the variables again that held them" in done.stdout
    assert names(lab.path() / ".staging/trials") == [] and names(lab.path() / "archives") == []
    assert lab.cli("ship", "r", str(file)).returncode == 1
    for name, value in (("TOKEN", KEY), ("PASSWORD", OLD), ("A_KEY", "another-key-altogether")):
        monkeypatch.setenv(f"LAB_{name}", value)
    assert lab.cli("ship", "r", str(file)).returncode == 1
    monkeypatch.setenv("LAB_B_KEY", "and-the-one-after-that")
    assert lab.cli("ship", "r", str(file)).returncode == 0
    assert not holding(lab.path() / ".staging", KEY.encode())


OLD = "the-password-of-last-year"


def test_what_a_command_has_written_to_is_made_anew_before_the_next_shipment(lab) -> None:
    file = write(
        lab,
        """
  per_trial: [{uses: auto}, {uses: archive}, {uses: ship, name: each, with: {using: evil}}]
  per_experiment:
  - {uses: dataset}
  - {uses: archive, name: shards, with: {shard: 1}}
  - {uses: ship, name: first, with: {using: evil, path: .}}
  - {uses: ship, with: {using: take, dest: x, path: .}}
""",
        commands="""
evil:
  script: |
    cd "$RUN_DIR"
    for file in $(find . -type f); do echo written >> "$file"; done
    ln -s /etc/passwd link; ln -s /etc linked; mkfifo trials/pipe; mkdir -p more; echo written > more/file
    if test -d dataset; then mv dataset aside; ln -s /etc dataset; fi
    chmod -R a-w trials
""",
    )
    assert lab.run(file) == 0
    sent = lab.root / "sent/x/run"
    assert names(sent) == names(lab.path() / ".staging")
    assert [n for n in names(sent) if n != "experiment.yaml" and b"written\n" in (sent / n).read_bytes()] == []
    assert {p.name for p in sent.iterdir()} == {
        "archives", "dataset", "experiment.yaml", "manifest.json", "results.jsonl", "trials"
    }  # fmt: skip
    assert len(names(sent / "archives")) == 4 and len(names(sent / "dataset")) == 3 and len(names(sent / "trials")) == 6
    for archive in (sent / "archives").iterdir():
        subprocess.run(["tar", "-tf", archive], check=True, capture_output=True)


def test_a_step_that_drops_and_is_another_one_than_in_the_run_is_told(lab) -> None:
    text = """
  per_trial: [{uses: auto}, {uses: guard, with: {max_reward: %s}, on_violation: drop}]
  per_experiment: [{uses: ship, with: {using: take, dest: x}}]
"""
    assert lab.run(write(lab, text % 1)) == 0
    assert "drops trials" not in lab.cli("ship", "r", str(write(lab, text % 1)), "--dry-run").stdout
    done = lab.cli("ship", "r", str(write(lab, text % 0.5)), "--dry-run")
    assert "note: guard drops trials, and not all went through it as the file has it" in done.stdout


def test_what_the_file_quotes_stays_out_of_it_after_its_variable_holds_something_else(lab, monkeypatch) -> None:
    quoting = f"keep: {{script: 'echo \"{OLD}\" > /dev/null'}}\n"
    text = """
  per_trial: [{uses: auto}]
  per_experiment: [{uses: report, with: {dest: one.md}}, {uses: ship, with: {using: take, dest: x, path: .}}]
"""
    monkeypatch.setenv("LAB_PASSWORD", OLD)
    file = write(lab, text, commands=quoting)
    assert lab.run(file) == 0
    with (lab.path() / "one.md").open("a") as report:
        report.write(f"told: {OLD}\n")
    for password in (OLD, "the-password-of-this-year", None):
        monkeypatch.setenv("LAB_PASSWORD", password) if password else monkeypatch.delenv("LAB_PASSWORD")
        done = lab.cli("ship", "r", str(file))
        assert done.returncode == 0, done.stdout + done.stderr
        assert "***" in (lab.root / "sent/x/run/experiment.yaml").read_text()
        assert not holding(lab.root / "sent", OLD.encode())
        with (lab.path() / "one.md").open("a") as report:
            report.write(f"told: {OLD}\n")
    assert OLD in (lab.path() / "experiment.yaml").read_text()
    assert OLD.encode() not in (lab.path() / ".publishing/ledger.jsonl").read_bytes()
