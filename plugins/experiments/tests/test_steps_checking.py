"""What a file names and this machine does not have is told with everything else that is wrong, each at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentix.api import UsageError
from agentix.plugins.experiments.documents import ExperimentError, Problem
from agentix.plugins.experiments.steps import check_file

HEAD = "kind: Experiment\nname: e\ncases: [{path: a}]\nmatrix: {agents: [nop]}\n"


def _problems(tmp_path: Path, text: str, *, executor: str | None = None) -> tuple[Problem, ...]:
    path = tmp_path / "e.yaml"
    path.write_text(text)
    return check_file(path, executor=executor).problems


def test_everything_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    text = (
        "kind: Experiment\nname: e\n"
        "cases: [{path: a, dataset: harbr}, {path: b, pth: c}]\n"
        "matrix: {agents: [orcale], trails: 3}\n"
        "pipeline:\n"
        "  per_case: {chek_case: {}}\n"
        '  per_experiment: [{uses: report, with: {dest: "{{.Nope}}"}}]\n'
        "  per_trial: [{uses: rollout}, {uses: tool}]\n"
        "---\nkind: Commands\ntool: {run: [no-such-program]}\n"
    )
    found = {(problem.line, problem.path, problem.nearest) for problem in _problems(tmp_path, text)}
    assert found == {
        (3, "cases[0].dataset", "harbor"),
        (3, "cases[1].pth", "path"),
        (4, "matrix.agents[0]", "oracle"),
        (4, "matrix.trails", "trials"),
        (6, "pipeline.per_case.chek_case", "check_case"),
        (7, "pipeline.per_experiment[0].with.dest", None),
        (11, "tool.run", None),
    }


@pytest.mark.parametrize(
    ("head", "lacks"),
    [
        ("cases: [{path: a}]\nmatrix: {agents: [nop]}", "name"),
        ("name: e\nmatrix: {agents: [nop]}", "cases"),
        ("name: e\ncases: []\nmatrix: {agents: [nop]}", "cases"),
        ("name: e\ncases: [{path: a}]", "matrix"),
        ("name: e\ncases: [{path: a}]\nmatrix: {agents: []}", "matrix.agents"),
        ("name: e\ncases: [{path: a}]\nmatrix: {trials: 2}", "matrix.agents"),
    ],
)
def test_what_a_file_lacks_hides_nothing_else_that_is_wrong(tmp_path: Path, head: str, lacks: str) -> None:
    rest = "pipeline: {per_case: [{uses: chek_case}], per_experiment: [{uses: report, with: {dets: x}}]}"
    found = {problem.path for problem in _problems(tmp_path, f"kind: Experiment\n{head}\n{rest}\n")}
    assert found == {lacks, "pipeline.per_case[0].uses", "pipeline.per_experiment[0].with.dets"}


@pytest.mark.parametrize(
    ("text", "line", "path", "words"),
    [
        (HEAD.replace("[nop]", "[{name: nop, options: {x: 1}}]"), 4, "matrix.agents[0].options.x", "no options"),
        (HEAD.replace("[nop]", "[{name: command, options: {scirpt: x}}]"), 4, "matrix.agents[0].options.scirpt",
         "did you mean 'script'"),
        (HEAD.replace("{path: a}", "{source: dataset, dataset: harbor, options: {paht: x}}"), 3,
         "cases[0].options.paht", "did you mean 'path'"),
        (HEAD.replace("{path: a}", "{source: dataset, dataset: ./none.py}"), 3, "cases[0].dataset", "none.py"),
        (HEAD + "pipeline: {per_trial: [{uses: x}]}\n---\nkind: Commands\nx: {uses: gone.sh}\n", 8, "x.uses",
         "there is no file"),
        (HEAD + f"---\nkind: Commands\nx: {{uses: e.yaml, sha256: {'a' * 64}}}\n", 7, "x.sha256", "is pinned to"),
        (HEAD + "pipeline: {per_experiment: [{uses: report, with: {dets: x}}]}\n", 5,
         "pipeline.per_experiment[0].with.dets", "no such input"),
    ],
)  # fmt: skip
def test_a_plugin_or_a_program_that_is_wrong_is_told_where_it_is_named(
    tmp_path: Path, text: str, line: int, path: str, words: str
) -> None:
    (problem,) = _problems(tmp_path, text)
    assert (problem.line, problem.path) == (line, path), problem
    assert words in str(problem)
    assert "\n" not in str(problem)


@pytest.mark.parametrize("step", ["guard: {max_reward: 1, on_violaton: drop}", "guard: {max_rewrd: 1}"])
def test_a_misspelled_key_of_the_older_form_is_told_with_what_was_meant(tmp_path: Path, step: str) -> None:
    (problem,) = _problems(tmp_path, HEAD + f"pipeline:\n  per_trial:\n    rollout: {{}}\n    {step}\n")
    assert problem.line == 8
    assert problem.nearest == ("on_violation" if "violaton" in step else "max_reward")


def test_a_place_is_told_once(tmp_path: Path) -> None:
    text = HEAD + "pipeline: {per_trial: [{uses: x, fix: y}]}\n---\nkind: Commands\nx: {script: a}\ny: {script: a}\n"
    assert [problem.path for problem in _problems(tmp_path, text)] == ["pipeline.per_trial[0].fix"]


def test_an_executor_of_its_own_may_know_other_agents(tmp_path: Path) -> None:
    text = HEAD.replace("nop", "claude-of-harbor") + "---\nkind: Commands\nharbor: {script: x}\n"
    assert _problems(tmp_path, text) == ()
    assert [problem.path for problem in _problems(tmp_path, text, executor="rollout")] == ["matrix.agents[0]"]


def test_a_command_that_is_not_run_here_need_not_be_there(tmp_path: Path) -> None:
    text = HEAD + "---\nkind: Commands\nsource_git: {uses: gone.sh}\nunused: {run: [no-such-program]}\n"
    assert _problems(tmp_path, text) == ()
    git = text.replace("{path: a}", "{source: git, repo: r}")
    assert [problem.path for problem in _problems(tmp_path, git)] == ["source_git.uses"]


def test_an_executor_that_runs_no_trials_is_the_command_lines_fault(tmp_path: Path) -> None:
    # One that needs inputs, one that works elsewhere, and one that could be there.
    for name in ("guard", "report", "redact", "admission"):
        with pytest.raises(UsageError, match=f"--executor {name}: this step does not run trials"):
            _problems(tmp_path, HEAD, executor=name)


def test_a_checkout_beside_the_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("here", "beside/co"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    for step in (
        "{uses: ship_github, with: {dest: x, repo: co}}",
        "{uses: ship, with: {using: ship_github, dest: x, options: {repo: co}}}",
    ):
        text = HEAD + f"pipeline: {{per_experiment: [{step}]}}\n"
        (problem,) = _problems(tmp_path / "beside", text)
        # It is there, and no checkout.
        assert f"{tmp_path / 'beside/co'} is no checkout" in problem.message


def test_where_nothing_is_left_to_be_checked_the_problems_are_raised(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="holds no Experiment"):
        _problems(tmp_path, "kind: Commands\n")


def test_a_step_that_is_not_installed_is_named(tmp_path: Path) -> None:
    text = HEAD + (
        "pipeline:\n"
        "  per_trial: [{uses: rollout}, {uses: scrub}]\n"
        "  per_experiment: [{uses: datasets_of_mine}, {uses: ship, with: {using: ship_ftp, dest: a/b}}]\n"
    )
    problems = _problems(tmp_path, text)
    assert [problem.path for problem in problems] == [
        "pipeline.per_trial[1].uses",
        "pipeline.per_experiment[0].uses",
        "pipeline.per_experiment[1].with.using",
    ]
    for problem, name in zip(problems, ("scrub", "datasets_of_mine", "ship_ftp"), strict=True):
        assert f"{name!r} is neither " in problem.message


def test_configured_agents_and_executors_win_over_plugins_of_their_names_and_it_is_said(tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(
        HEAD.replace("[nop]", "[claude-code, nop]")
        + "pipeline: {per_trial: [{uses: rollout}]}\n---\nkind: Commands\n"
        + 'agent_claude-code: {run: ["/opt/agents/claude-code/run.sh"]}\nagent_nop: {script: "true"}\n'
        + 'harbor: {script: "true"}\nrollout: {script: "true"}\n'
    )
    checked = check_file(path)
    assert checked.problems == ()
    assert [kind.kind for kind in checked.kinds] == ["command", "command"]
    assert checked.kinds[1].notice is not None
    assert "not the installed plugin nop" in checked.kinds[1].notice
    assert checked.executor.kind == "command"
    assert any("command rollout runs the trials, not the installed" in notice for notice in checked.notices)
    assert check_file(path, executor="auto").executor.command is not None
    assert check_file(path, executor="harbor").executor.label == "harbor"


@pytest.mark.parametrize(
    ("commands", "executor", "said"),
    [
        ("", None, "executor: the step rollout runs the trials"),
        (
            "---\nkind: Commands\nharbor: {script: x}\n",
            None,
            "executor: the configured command harbor runs the trials, not",
        ),
        ("---\nkind: Commands\nmine: {script: x}\n", "mine", None),
    ],
)
def test_what_runs_the_trials_is_said_once(
    tmp_path: Path, commands: str, executor: str | None, said: str | None
) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(HEAD + commands)
    notices = [line for line in check_file(path, executor=executor).notices if "runs the trials" in line]
    assert len(notices) == (said is not None)
    assert said is None or notices[0].startswith(said)
