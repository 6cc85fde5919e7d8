"""Two steps of the whole run that publish to one place are refused before anything runs, as far as inputs say where."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentix.plugins.experiments.steps import check_file

STEPS = """
from pydantic import BaseModel, ConfigDict
from agentix.api import Scope, StepOutcome


class Inputs(BaseModel):
    model_config = ConfigDict(extra="forbid")
    to: str = "there"


class Putting:
    scopes = frozenset({Scope.PER_EXPERIMENT})
    Inputs = Inputs
    publishes = True

    async def run(self, ctx, inputs):
        return StepOutcome()


class Telling(Putting):
    def places(self, inputs):
        yield inputs.to
        yield "{{.Experiment}}.txt"
"""
HEAD = "---\nkind: Experiment\nname: e\ncases: [{path: a}]\nmatrix: {agents: [nop]}\npipeline:\n  per_experiment:\n"
ALONE = "{uses: dataset, with: {dir: there}}"


@pytest.fixture
def problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "steps.py").write_text(STEPS)

    def checked(*steps: str) -> list[tuple[int | None, str, str]]:
        file = tmp_path / "e.yaml"
        file.write_text(HEAD + "".join(f"  - {step}\n" for step in steps))
        return [(found.line, found.path, found.message) for found in check_file(file).problems]

    return checked


def test_two_datasets_with_one_folder_are_an_error_of_the_second_with_its_line(problems) -> None:
    said = "publishes dataset where dataset does (pipeline.per_experiment[0]); give one of them another place"
    found = problems("{uses: dataset}", "{uses: report}", "{uses: dataset, name: other, with: {title: Another}}")
    assert found == [(10, "pipeline.per_experiment[2].uses", said)]
    assert problems("{uses: dataset}", "{uses: dataset, with: {dir: others}}") == []


def test_a_place_inside_of_another_one_is_not_free_either(problems) -> None:
    for outer, inner in (("data", "data/rows"), ("data/rows", "data")):
        (found,) = problems(f"{{uses: dataset, with: {{dir: {outer}}}}}", f"{{uses: dataset, with: {{dir: {inner}}}}}")
        assert found[2].startswith(f"publishes {inner} where dataset does")
    assert problems("{uses: dataset, with: {dir: data}}", "{uses: dataset, with: {dir: data-2}}") == []


def test_archives_of_many_trials_are_called_after_the_experiment_and_their_format(problems) -> None:
    (found,) = problems("{uses: archive, with: {shard: 2}}", "{uses: archive, with: {shard: 3}}")
    assert found[:2] == (9, "pipeline.per_experiment[1].uses")
    assert problems("{uses: archive, with: {shard: 2}}", "{uses: archive, with: {shard: 2, format: tar.gz}}") == []


@pytest.mark.parametrize(
    ("one", "other", "refused"),
    [
        ("d-{{.RunID}}", "d-{{.RunID}}", True),
        ("d-{{.RunID}}", "d-{{.Experiment}}", False),
        ("d-{{.RunID}}", "d-run-id-example", False),
        ("{{.RunID}}/a", "{{.RunID}}", True),
    ],
)
def test_templates_collide_where_they_do_whatever_they_stand_for(problems, one: str, other: str, refused: bool) -> None:
    found = problems(*(f'{{uses: dataset, with: {{dir: "{place}"}}}}' for place in (one, other)))
    assert [path for _, path, _ in found] == ["pipeline.per_experiment[1].uses"] * refused


def test_a_step_of_a_stranger_that_tells_its_places_is_held_to_them_and_another_is_left_for_the_run(problems) -> None:
    assert problems('{uses: "./steps.py:Putting"}', ALONE) == []
    (found,) = problems('{uses: "./steps.py:Telling"}', ALONE)
    assert found[:2] == (9, "pipeline.per_experiment[1].uses")
    (found,) = problems('{uses: "./steps.py:Telling"}', '{uses: "./steps.py:Telling", name: b, with: {to: here}}')
    assert found[2].startswith("publishes {{.Experiment}}.txt where ./steps.py:Telling does")
