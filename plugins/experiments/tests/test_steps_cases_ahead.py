"""What is wrong with the cases of a file is told with everything else that is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentix.plugins.experiments.documents import ExperimentError
from agentix.plugins.experiments.engine import RunRequest, run_experiment

EVERYTHING = """kind: Experiment
name: e
cases:
- {path: cases/one}
- {path: more/one}
- {path: "nothing/*"}
- {source: git, repo: nowhere, path: a}
- {source: git, repo: "https://example.org/r", path: "/etc"}
matrix: {agents: [nop]}
pipeline:
  with: {pass_att: 1}
  per_experiment:
  - {uses: report, with: {dets: x}}
  - {uses: ship, with: {using: nothing, dest: "{{.Nope}}"}}
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("cases/one", "more/one"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "task.toml").touch()
    return tmp_path


def told(place: Path, text: str, **request) -> list[tuple[int | None, str]]:
    (place / "e.yaml").write_text(text)
    with pytest.raises(ExperimentError) as caught:
        run_experiment(RunRequest(file=place / "e.yaml", out=place / "runs", dry_run=True, **request))
    return sorted((problem.line, problem.path) for problem in caught.value.problems)


def test_everything_is_told_at_once(place: Path) -> None:
    assert told(place, EVERYTHING) == [
        (3, "cases"),
        (6, "cases[2].path"),
        (7, "cases[3].repo"),
        (8, "cases[4].path"),
        (11, "pipeline.with.pass_att"),
        (13, "pipeline.per_experiment[0].with.dets"),
        (14, "pipeline.per_experiment[1].with.dest"),
        (14, "pipeline.per_experiment[1].with.using"),
    ]


def test_repositories_that_name_one_case_count_before_they_are_fetched(place: Path) -> None:
    text = (
        "kind: Experiment\nname: e\ncases:\n"
        '- {source: git, repo: "https://example.org/r", path: a/one}\n'
        '- {source: git, repo: "https://example.org/s", path: b/one}\n'
        '- {source: git, repo: "https://example.org/s", path: "c/*"}\n'
        "matrix: {agents: [nop]}\nsurplus: 1\n"
    )
    assert told(place, text) == [(3, "cases"), (8, "surplus")]


def test_cases_that_are_left_out_may_have_the_name_of_another_one(place: Path) -> None:
    text = "kind: Experiment\nname: e\ncases:\n- {path: cases/one}\n- {path: more/one}\nmatrix: {agents: [nop]}\n"
    (place / "e.yaml").write_text(text)
    for chosen in ({"limit": 1}, {"cases": ("cases/*",)}):
        assert run_experiment(RunRequest(file=place / "e.yaml", out=place / "runs", dry_run=True, **chosen)) == 0
