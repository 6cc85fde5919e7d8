"""What leaves this machine of a run: redacted, not dropped, whole, and by one way."""

from __future__ import annotations

import json
import shutil

import pytest
from published import SHIP, holding, names, write

from agentix.api import load_run
from agentix.plugins.experiments.documents import ExperimentError
from agentix.plugins.experiments.progress import Board, counts


def test_the_tree_is_laid_out_like_the_run_and_holds_nothing_of_this_machine(lab) -> None:
    file = write(
        lab,
        "  per_trial: [{uses: auto}, {uses: archive}]\n" + SHIP,
    )
    assert lab.run(file) == 0
    staging = lab.path() / ".staging"
    assert {p.name for p in staging.iterdir()} == {
        "archives", "experiment.yaml", "manifest.json", "results.jsonl", "trials"
    }  # fmt: skip
    manifest = json.loads((staging / "manifest.json").read_text())
    assert manifest["sessions"] == [] and manifest["experiment"] == "lab"
    own = lab.manifest()
    assert "path" in own["cases"][0]["pin"] and "path" not in manifest["cases"][0]["pin"]
    assert "/" in own["file"] and "/" not in manifest["file"]
    assert [r.trial_id for r in load_run(staging)] == [r.trial_id for r in load_run(lab.path())]
    assert not list(staging.glob("trials/*/steps"))
    (archive,) = staging.glob("archives/a-*")
    assert archive.read_bytes() == (lab.path() / "archives" / archive.name).read_bytes()
    # What is shipped where nothing is said is what the nearest step before has made.
    assert names(lab.root / "sent/x/run") == names(staging)


def test_of_a_dropped_trial_nothing_is_published_and_its_archive_is_gone(lab, capfd) -> None:
    file = write(
        lab,
        """
  per_trial: [{uses: auto}, {uses: redact}, {uses: archive}, {uses: refuse, on_violation: drop}]
  per_experiment: [{uses: ship, with: {using: take, dest: x}}]
""",
    )
    assert lab.run(file, quiet=False) == 0
    assert lab.records()["a-someone-1"].dropped
    assert not [n for n in names(lab.path() / ".staging") if "a-someone-1" in n]
    assert [p.name.partition(".")[0] for p in (lab.path() / "archives").iterdir()] == ["b-someone-1"]
    assert [r.trial_id for r in load_run(lab.root / "sent/x/run")] == ["b-someone-1"]
    (end, _) = lab.manifest()["ended"]
    assert end["message"] == "took it; 1 trial is withheld: 1 dropped"
    assert capfd.readouterr().out.count(" ship: took it; 1 trial is withheld: 1 dropped\n") == 1


BREAKS = """
from pydantic import BaseModel, ConfigDict
from agentix.api import Scope, StepOutcome
from pathlib import Path
HERE = Path(__file__).parent

class Inputs(BaseModel):
    model_config = ConfigDict(extra="forbid")

class Redact:
    scopes = frozenset({Scope.PER_TRIAL})
    Inputs = Inputs
    redacts = True
    async def run(self, ctx, inputs):
        trial = ctx.subject["trial_id"]
        if (HERE / f"broken-{trial}").exists():
            raise OSError(28, "No space left on device")
        place = ctx.work_dir / "copy"
        place.mkdir(exist_ok=True)
        (place / "trial.json").write_bytes((ctx.trial_dir / "trial.json").read_bytes())
        if (HERE / "link").exists():
            (place / "link").symlink_to("/etc/passwd")
        return StepOutcome(publish={f"trials/{trial}": place}, redaction={"x": 1})

redact = Redact
"""


def doubles(lab) -> str:
    (lab.root / "doubles.py").write_text(BREAKS)
    return f"{lab.root}/doubles.py:redact"


def test_a_trial_that_cannot_be_redacted_is_withheld_and_the_others_go(lab, capfd) -> None:
    redact = doubles(lab)
    (lab.root / "broken-a-someone-1").touch()
    file = write(
        lab,
        f"""
  per_trial: [{{uses: auto}}, {{uses: '{redact}'}}, {{uses: archive}}]
  per_experiment: [{{uses: ship, with: {{using: take, dest: x}}}}]
""",
    )
    assert lab.run(file, quiet=False) == 1
    record = lab.records()["a-someone-1"]
    assert [(f.code, "No space left" in f.message) for f in record.step_failures] == [("REDACT_FAILED", True)]
    assert record.reward == 1.0 and record.redaction == {}
    assert lab.records()["b-someone-1"].redaction == {"x": 1}
    assert [r.trial_id for r in load_run(lab.root / "sent/x/run")] == ["b-someone-1"]
    said = capfd.readouterr().out
    assert "1 trial is withheld: 1 could not be redacted" in said and "No space left on device" in said
    status = lab.cli("status", "r").stdout
    assert "2/2 trials done · 1 could not be redacted" in status
    assert "step ship: took it; 1 trial is withheld: 1 could not be redacted" in status
    assert "REDACT_FAILED" in lab.cli("status", "r", "--failures", "--json").stdout
    # It is tried again when the run is shipped again, and its line says what is true of what goes.
    (lab.root / "broken-a-someone-1").unlink()
    shutil.rmtree(lab.root / "sent")
    done = lab.cli("ship", "r", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    sent = {r.trial_id: r for r in load_run(lab.root / "sent/x/run")}
    assert sorted(sent) == ["a-someone-1", "b-someone-1"]
    assert sent["a-someone-1"].step_failures == () and sent["a-someone-1"].redaction == {"x": 1}
    assert "REDACT_FAILED" in (lab.path() / "results.jsonl").read_text()


def test_where_all_is_withheld_shipping_is_an_error_that_says_why(lab) -> None:
    file = write(
        lab,
        """
  per_trial: [{uses: auto}, {uses: gone, on_violation: drop}]
  per_experiment: [{uses: ship, with: {using: take, dest: x}}]
""",
    )
    assert lab.run(file) == 1
    assert lab.manifest()["incomplete"] == "ship: there is nothing to ship: 2 trials are withheld: 2 dropped"
    assert not (lab.root / "sent").exists()


def test_what_holds_a_link_is_not_published(lab) -> None:
    redact = doubles(lab)
    (lab.root / "link").touch()
    file = write(
        lab,
        f"  per_trial: [{{uses: auto}}, {{uses: '{redact}'}}]\n" + SHIP,
    )
    assert lab.run(file) == 1
    (failure,) = lab.records()["a-someone-1"].step_failures
    assert failure.code == "REDACT_FAILED" and "neither a file nor a directory" in failure.message
    assert names(lab.path() / ".staging/trials") == []


def test_a_trial_that_is_run_again_takes_the_place_of_what_was_staged_of_it(lab) -> None:
    lab.script(a_someone_1=[{"code": "HOST_ERROR", "message": "first"}, {"reward": 0.25}])
    file = write(
        lab,
        "  per_trial: [{uses: auto}, {uses: archive}]\n" + SHIP,
    )
    assert lab.run(file) == 3
    (before,) = (lab.path() / "archives").glob("a-*")
    first = before.read_bytes()
    assert lab.run(file, retry=frozenset({"HOST_ERROR"})) == 0
    (after,) = (lab.path() / "archives").glob("a-*")
    assert after.read_bytes() != first
    staged = lab.path() / ".staging"
    assert json.loads((staged / "trials/a-someone-1/trial.json").read_text())["record"]["reward"] == 0.25
    assert (staged / "archives" / after.name).read_bytes() == after.read_bytes()
    assert not (staged / "trials/a-someone-1/earlier").exists()


def test_two_ship_commands_both_go_and_a_failed_one_is_tried_alone_on_resume(lab) -> None:
    text = """
  per_trial: [{uses: auto}, {uses: archive}]
  per_experiment:
  - {uses: ship, with: {using: take, dest: one, path: results.jsonl}}
  - {uses: ship, with: {using: SECOND, dest: two}}
"""
    assert lab.run(write(lab, text.replace("SECOND", "gone"))) == 1
    assert [(e["step"], e["ok"]) for e in lab.manifest()["ended"]][:2] == [("ship", True), ("ship", False)]
    assert len((lab.root / "sent/one/path").read_text().splitlines()) == 2
    shutil.rmtree(lab.root / "sent")
    assert lab.run(write(lab, text.replace("SECOND", "take"))) == 0
    assert not (lab.root / "sent/one").exists()
    assert (lab.root / "sent/two/path/manifest.json").exists()
    before = lab.bytes()
    assert lab.run(write(lab, text.replace("SECOND", "take"))) == 0
    assert lab.bytes() == before


def test_the_default_path_is_what_the_nearest_step_has_published_also_after_a_resume(lab) -> None:
    text = """
  per_experiment: [{uses: dataset}, {uses: ship, with: {using: take, dest: x}}]
"""
    assert lab.run(write(lab, text.replace("using: take", "using: gone"))) == 1
    ended = {end["step"]: end for end in lab.manifest()["ended"]}
    assert ended["dataset"]["published"] == ["dataset"]
    assert lab.run(write(lab, text)) == 0
    assert "README.md" in names(lab.root / "sent/x/path")
    assert names(lab.root / "sent/x/path") == names(lab.path() / "dataset")


@pytest.mark.parametrize("what", ["trials/a-someone-1/trial.json", "archives", "results.jsonl", "more"])
def test_what_a_ship_command_has_written_to_is_made_again_before_anything_is_shipped(lab, what: str) -> None:
    scribble = f"""
scribble:
  script: |
    cd "$LOCAL_PATH"
    t={what}; [ -d "$t" ] && t=$(ls "$t"/* | head -1)
    chmod u+w "$t" 2>/dev/null; echo scrib""bled >> "$t"
"""
    text = "  per_trial: [{uses: auto}, {uses: archive}]\n" + SHIP
    assert lab.run(write(lab, text.replace("using: take", "using: scribble"), commands=scribble)) == 0
    assert holding(lab.path() / ".staging", b"scribbled")
    assert lab.run(write(lab, text, commands=scribble)) == 0
    assert names(lab.root / "sent/x/run")
    assert holding(lab.root / "sent", b"scribbled") == []
    assert len(names(lab.root / "sent/x/run/archives")) == 2


def test_a_file_that_orders_its_steps_wrongly_is_refused(lab) -> None:
    file = write(lab, "  per_trial: [{uses: auto}, {uses: archive}, {uses: redact}]\n")
    with pytest.raises(ExperimentError, match="has to come before"):
        lab.run(file)


def test_a_trial_that_is_published_is_seen_in_each_step_like_in_any_other(lab, monkeypatch) -> None:
    seen: list[str] = []
    real = Board.move

    def move(board: Board, trial_id: str, step: str) -> None:
        real(board, trial_id, step)
        if trial_id == "a-someone-1":
            seen.append(counts(board).partition("(")[2].partition(")")[0])

    monkeypatch.setattr(Board, "move", move)
    ship = "{uses: ship, with: {using: take, dest: '{{.TrialID}}'}}"
    pipeline = f"  per_trial: [{{uses: auto}}, {{uses: archive}}, {ship}]\n"
    assert lab.run(write(lab, pipeline)) == 0
    for step in ("redact×", "archive×", "ship×"):
        assert any(step in line for line in seen), seen


def test_a_trial_that_could_not_be_shipped_is_shipped_on_resume(lab, capfd) -> None:
    commands = "up: {script: 'echo $TRIAL_ID >> @/asked; case $TRIAL_ID in a-*) test -e @/open || exit 3;; esac'}\n"
    text = """
  per_trial: [{uses: auto}, {uses: archive}, {uses: ship, with: {using: up}}]
  per_experiment: [{uses: ship, name: all, with: {using: take, dest: x}}]
"""
    file = write(lab, text, commands=commands)
    assert lab.run(file) == 1
    assert [f.message for f in lab.records()["a-someone-1"].step_failures] == ["exit status 3"]
    assert lab.run(file, dry_run=True, quiet=False) == 0
    said = capfd.readouterr().out
    assert "a-someone-1: not run: it has ended, and only its steps are left" in said
    assert "b-someone-1: not run: it has a result" in said
    (lab.root / "open").touch()
    assert lab.run(file) == 0
    record = lab.records()["a-someone-1"]
    assert record.step_failures == () and record.reward == 1.0
    assert (lab.root / "asked").read_text().split().count("b-someone-1") == 1
    assert len((lab.path() / "results.jsonl").read_text().splitlines()) == 2
    assert [r.step_failures for r in load_run(lab.root / "sent/x/run")] == [(), ()]
    # The trial itself did not run again, and what is finished stays as it is.
    assert sorted(lab.ran) == ["a-someone-1", "b-someone-1"]
    before = lab.bytes()
    assert lab.run(file) == 0
    assert lab.bytes() == before


@pytest.mark.parametrize(("listed", "path"), [(True, ""), (True, ", path: dataset"), (False, ""), (True, ", path: .")])
def test_a_dataset_of_dropped_trials_is_shipped_where_it_lists_them(lab, listed: bool, path: str) -> None:
    file = write(
        lab,
        f"""
  per_trial: [{{uses: auto}}, {{uses: gone, on_violation: drop}}]
  per_experiment:
  - {{uses: dataset, with: {{include_dropped: {str(listed).lower()}}}}}
  - {{uses: ship, with: {{using: take, dest: x{path}}}}}
""",
    )
    if not listed or path.endswith("."):
        assert lab.run(file) == 1
        assert lab.manifest()["incomplete"] == "ship: there is nothing to ship: 2 trials are withheld: 2 dropped"
        assert not (lab.root / "sent").exists()
        assert (lab.path() / "dataset").exists() is listed
        return
    assert lab.run(file) == 0
    rows = (lab.root / "sent/x/path/data/trials.jsonl").read_text().splitlines()
    assert [json.loads(row)["patch"] for row in rows] == [None, None]
    (ended,) = [end for end in lab.manifest()["ended"] if end["step"] == "ship"]
    assert ended["message"].endswith("2 trials are withheld: 2 dropped")
