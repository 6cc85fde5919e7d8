"""Experiment files as people write them are right as a whole: every step of theirs is found, and takes its inputs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentix.plugins.experiments.steps import Checked, ResolvedStep, check_file
from agentix.plugins.experiments.steps.transport_step import TransportStep

ANNOTATED = (Path(__file__).parent / "files" / "annotated.yaml").read_text()
EXPERIMENT = '---\nkind: Experiment\nname: nightly\ncases: [{path: "cases/*"}]\nmatrix: {agents: [oracle], trials: 1}\n'
SHIP = '---\nkind: Commands\nship:\n  run: ["rclone", "copyto", "--", "{{.LocalPath}}", "onedrive:{{.Key}}"]\n'


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of these names on the PATH, with logins and remotes: what the steps ask for ahead is there."""
    place = tmp_path / "bin"
    place.mkdir()
    for name in ("hf", "rclone", "harbor", "git"):
        (place / name).write_text("#!/bin/sh\ncase \"$*\" in *listremotes*) printf 'onedrive:\\ns3:\\n';; esac\n")
        (place / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HF_TOKEN", "hf_of-nobody-at-all")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def check(tmp_path: Path):
    def checked(text: str) -> Checked:
        (tmp_path / "experiment.yaml").write_text(text)
        found = check_file(tmp_path / "experiment.yaml")
        assert [str(problem) for problem in found.problems] == []
        return found

    return checked


def labels(steps: tuple[ResolvedStep, ...]) -> list[str]:
    return [step.label for step in steps]


def test_the_long_annotated_file_with_its_adapter(check) -> None:
    found = check(ANNOTATED.replace("---\nkind: LLMSpec", 'harbor: {script: "harbor run"}\n---\nkind: LLMSpec', 1))
    pipeline = found.pipeline
    assert (found.executor.kind, found.executor.label) == ("command", "harbor")
    assert labels(pipeline.per_trial) == ["redact", "only-hard", "archive"]
    assert pipeline.redact is pipeline.per_trial[0]
    assert pipeline.redact.given["keys"] == "required"
    assert [step.publishes for step in pipeline.per_trial] == [False, False, True]
    dataset, ship = pipeline.per_experiment
    assert dataset.publishes and not dataset.ships
    assert isinstance(ship.step, TransportStep)
    assert ship.plugin.startswith("hf (agentix-rollouts-hf")
    assert (ship.ships, ship.path, ship.given) == (True, "dataset", {"dest": "my-org/rollout-libaom"})
    # Its command `ship` is there and is not what `using` names.
    assert "ship" in found.commands
    assert not any("redact" in notice for notice in found.notices)


def test_five_lines_publish_nothing(check) -> None:
    found = check(EXPERIMENT)
    assert (found.executor.label, found.pipeline.steps, found.pipeline.redact) == ("rollout", (), None)


@pytest.mark.parametrize(
    "written",
    [
        '  per_experiment:\n    ship:\n      using: ship\n      dest: "test/cases/jobs/{{.Experiment}}/{{.RunID}}"\n',
        "  per_experiment:\n    - uses: ship\n      with:\n        using: ship\n"
        '        dest: "test/cases/jobs/{{.Experiment}}/{{.RunID}}"\n',
    ],
)
def test_the_step_ship_uses_the_command_ship_in_either_form(check, written) -> None:
    found = check(EXPERIMENT + f"pipeline:\n{written}" + SHIP)
    (ship,) = found.pipeline.per_experiment
    assert (ship.kind, ship.command) == ("command", found.commands["ship"])
    assert ship.given == {"dest": "test/cases/jobs/{{.Experiment}}/{{.RunID}}"}
    # It publishes, and the file says nothing of redaction.
    assert labels(found.pipeline.per_trial) == ["redact"]
    assert any("as the last step of each trial" in notice for notice in found.notices)


def test_each_trial_is_shipped_with_a_command(check) -> None:
    steps = "  per_trial:\n    - uses: rollout\n    - uses: archive\n    - uses: ship\n      with: {using: ship}\n"
    found = check(EXPERIMENT + f"pipeline:\n{steps}" + SHIP)
    assert labels(found.pipeline.per_trial) == ["redact", "archive", "ship"]
    assert [step.ships for step in found.pipeline.per_trial] == [False, False, True]


@pytest.mark.parametrize(
    ("step", "dest"),
    [
        ('ship_hf\n      with: {dest: "my-org/{{.RunID}}", path: dataset}', "my-org/{{.RunID}}"),
        ('ship_rclone\n      with: {dest: "onedrive:rollouts/{{.Key}}"}', "onedrive:rollouts/{{.Key}}"),
        (
            'ship\n      with: {using: ship_rclone, dest: "s3:{{.Experiment}}/{{.RunID}}"}',
            "s3:{{.Experiment}}/{{.RunID}}",
        ),
    ],
)
def test_templates_stand_in_the_destination_of_a_transport(check, step, dest) -> None:
    found = check(EXPERIMENT + f"pipeline:\n  per_experiment:\n    - uses: dataset\n    - uses: {step}\n")
    ship = found.pipeline.per_experiment[1]
    assert isinstance(ship.step, TransportStep)
    assert ship.given["dest"] == dest


def test_a_command_of_the_name_of_a_transport_stands_beside_it(check) -> None:
    text = EXPERIMENT + (
        "pipeline:\n  per_experiment:\n    - uses: ship_hf\n      with: {dest: my-org/runs}\n"
        "    - uses: ship\n      with: {using: ship_hf, dest: anything}\n"
        '---\nkind: Commands\nship_hf: {script: "true"}\n'
    )
    found = check(text)
    assert [step.kind for step in found.pipeline.per_experiment] == ["plugin", "command"]
    assert sum("ship_hf" in notice for notice in found.notices) == 2


def test_a_report_and_a_repair(check) -> None:
    text = EXPERIMENT + (
        "pipeline:\n  per_case:\n    - uses: check_quality\n      fix: fix_quality_audit\n      fix_writeback: true\n"
        "      fix_attempts: 2\n  per_experiment:\n    - uses: report\n      with: {dest: summary.md, pass_at: 0.8}\n"
        '---\nkind: Commands\nfix_quality_audit: {script: "true"}\ncheck_quality: {script: "true"}\n'
    )
    found = check(text)
    assert found.pipeline.per_case[0].fix is found.commands["fix_quality_audit"]
    assert found.pipeline.redact is None
