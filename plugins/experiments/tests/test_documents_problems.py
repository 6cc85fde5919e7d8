"""What is wrong with a file is told with its line, its path and the nearest name, all of it at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentix.api import UsageError
from agentix.plugins.experiments.documents import ExperimentError, Problem, load, read

HEAD = "kind: Experiment\nname: e\ncases: [{path: a}]\nmatrix: {agents: [nop]}\n"


def _problems(tmp_path: Path, text: str | bytes, *, commands: Path | None = None) -> tuple[Problem, ...]:
    path = tmp_path / "e.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ExperimentError) as caught:
        load(path, commands=commands)
    assert isinstance(caught.value, UsageError)
    for problem in caught.value.problems:
        assert str(problem) in str(caught.value)
    return caught.value.problems


def _only(tmp_path: Path, text: str | bytes) -> Problem:
    (problem,) = _problems(tmp_path, text)
    return problem


@pytest.mark.parametrize(
    ("text", "line", "path", "words", "near"),
    [
        (HEAD + "concurency: 3\n", 5, "concurency", "no such key", "concurrency"),
        (HEAD + "zzz: 3\n", 5, "zzz", "there are name, cases, matrix", None),
        (HEAD + "limits: {timout: 5m}\n", 5, "limits.timout", "no such key", "timeout"),
        (HEAD + "limits:\n  timeout: 5\n", 6, "limits.timeout", "5 is no duration", None),
        (HEAD + "limits: {timeout: 0s}\n", 5, "limits.timeout", "no time at all", None),
        (HEAD + f"limits: {{timeout: {'9' * 400}h}}\n", 5, "limits.timeout", "longer than a year", None),
        (HEAD + "limits: {max_cost_usd: '0.6'}\n", 5, "limits.max_cost_usd", 'a number, not the text "0.6"', None),
        (HEAD + "limits: {max_cost_usd: 0}\n", 5, "limits.max_cost_usd", "more than 0, not 0", None),
        (HEAD + 'concurrency: "3"\n', 5, "concurrency", 'whole number, not the text "3"', None),
        (HEAD + "concurrency: 3.0\n", 5, "concurrency", "whole number, not 3.0", None),
        (HEAD + "concurrency: 1e3\n", 5, "concurrency", "whole number, not 1e3", None),
        (HEAD + "concurrency: true\n", 5, "concurrency", "whole number, not true", None),
        (HEAD + "concurrency: 0\n", 5, "concurrency", "at least 1, not 0", None),
        (HEAD + "concurrency:\n", 5, "concurrency", "has no value", None),
        (HEAD + "concurrency: 1e400\n", 5, "concurrency", "too large", None),
        (HEAD + "concurrency: .nan\n", 5, "concurrency", "no finite number", None),
        (HEAD + "pipeline: {with: {a: .inf}}\n", 5, "pipeline.with.a", "no finite number", None),
        (HEAD + f"concurrency: {'9' * 5000}\n", 5, "concurrency", "digits", None),
        (HEAD + "retry_on: [HOST_EROR]\n", 5, "retry_on[0]", "no failure code", "HOST_ERROR"),
        (HEAD + "provider: 3\n", 5, "provider", "a name or a mapping, not 3", None),
        (HEAD + "provider: {network: none}\n", 5, "provider.name", "is needed", None),
        (HEAD + "pipeline:\n  per_trial:\n", 6, "pipeline.per_trial", "has no value", None),
        (HEAD + "pipeline: {per_trail: []}\n", 5, "pipeline.per_trail", "no such key", "per_trial"),
        (HEAD + "pipeline: {per_case: [{uses: x, wiht: {}}]}\n", 5, "pipeline.per_case[0].wiht", "no such", "with"),
        (HEAD + "pipeline: {per_case: [{uses: x, inputs: {}}]}\n", 5, "pipeline.per_case[0].inputs", "no such", None),
        (HEAD + "pipeline: {per_case: [check_case]}\n", 5, "pipeline.per_case[0]", "has to be a mapping", None),
        (HEAD + "pipeline: {per_case: {check_case: 3}}\n", 5, "pipeline.per_case.check_case", "mapping", None),
        (HEAD + "pipeline: {per_case: [{uses: x, on_failure: wran}]}\n", 5, "pipeline.per_case[0].on_failure",
         "fail, warn or skip", "warn"),
        (HEAD + "pipeline: {per_trial: [{uses: x, fix: y}]}\n", 5, "pipeline.per_trial[0].fix", "per_case", None),
        (HEAD + "pipeline: {per_case: [{uses: x, fix_attempts: 2}]}\n", 5, "pipeline.per_case[0].fix_attempts",
         "there is no fix", None),
        (HEAD + "pipeline: {per_case: [{uses: x, fix: mend}]}\n---\nkind: Commands\nmendd: {script: x}\n", 5,
         "pipeline.per_case[0].fix", "no command has this name", "mendd"),
        ("kind: Experiment\nname: e\nmatrix: {agents: [nop]}\n", 1, "cases", "needs this key", None),
        ("kind: Experiment\nname: e\ncases: []\nmatrix: {agents: [nop]}\n", 3, "cases", "is empty", None),
        ("kind: Experiment\nname: e\ncases: [cases/*]\nmatrix: {agents: [nop]}\n", 3, "cases[0]",
         'path: "cases/*"', None),
        ("kind: Experiment\nname: e\ncases: [{id: a}]\nmatrix: {agents: [nop]}\n", 3, "cases[0].path", "needs", None),
        ("kind: Experiment\nname: e\ncases: [{path: a, repo: r}]\nmatrix: {agents: [nop]}\n", 3, "cases[0].repo",
         "source local, but with source git or hf", None),
        ("kind: Experiment\nname: e\ncases: [{source: gti, path: a}]\nmatrix: {agents: [nop]}\n", 3, "cases[0].source",
         "has to be local, git, hf or dataset", "git"),
        ("kind: Experiment\nname: e\ncases: [{source: git, repo: r, ref: 12e4567}]\nmatrix: {agents: [nop]}\n", 3,
         "cases[0].ref", "put it in quotes", None),
        ("kind: Experiment\nname: e\ncases: [{source: git, repo: r, ref: 0123}]\nmatrix: {agents: [nop]}\n", 3,
         "cases[0].ref", 'put it in quotes: "0123"', None),
        ("kind: Experiment\nname: e\ncase_defaults: {pth: a}\ncases: [{path: a}, {path: b}]\nmatrix: {agents: [nop]}\n",
         3, "case_defaults.pth", "no such key", "path"),
        ("kind: Experiment\nname: e\ncase_defaults: {dataset: 3}\ncases: [{path: a}, {path: b}]\n"
         "matrix: {agents: [x]}\n", 3, "case_defaults.dataset", "has to be text, not 3", None),
        ("kind: Experiment\nname: e\ncases: [{path: a, sha256: ABC}]\nmatrix: {agents: [nop]}\n", 3, "cases[0].sha256",
         "64 hexadecimal digits", None),
        ("kind: Experiment\nname: e\ncases: [{path: a}]\nmatrix: {agents: []}\n", 4, "matrix.agents", "is empty", None),
        ("kind: Experiment\nname: e\ncases: [{path: a}]\nmatrix: {}\n", 4, "matrix.agents", "is needed", None),
        ("kind: Experiment\nname: e\ncases: [{path: a}]\nmatrix: {agents: [{name: a, trials: '3'}]}\n", 4,
         "matrix.agents[0].trials", 'not the text "3"', None),
        ("kind: Experiment\nname: e\ncases: [{path: a}]\nmatrix: {agents: [{name: a, llm_spec: opsu}]}\n"
         "---\nkind: LLMSpec\nname: opus\nmodel: m\n", 4, "matrix.agents[0].llm_spec", "no LLMSpec", "opus"),
        ("kind: Experiment\nname: e\ncases: [{path: a}]\nmatrix: {agents: [a], llm_specs: [x]}\n", 4,
         "matrix.llm_specs[0]", "no LLMSpec document", None),
        (HEAD + "---\nkind: LLMSpec\nname: m\n", 6, "model", "an LLMSpec needs this key", None),
        (HEAD + "---\nkind: LLMSpec\nname: m\nmodel: x\nbase_ulr: x\n", 9, "base_ulr", "no such key", "base_url"),
        (HEAD + "---\nkind: LLMSpec\nname: m\nmodel: x\napi: a\nprovider: b\n", 10, "provider",
         "the same as api", None),
        (HEAD + "---\nkind: LLMSpec\nname: m\nmodel: x\napi_key_env: A\napi_key_cmd: [b]\n", 10, "api_key_cmd",
         "api_key_env is given too", None),
        (HEAD + "---\nkind: LLMSpec\nname: m\nmodel: x\n---\nkind: LLMSpec\nname: m\nmodel: x\n", 11, "name",
         "another LLMSpec", None),
        (HEAD + "---\nkind: Commands\ntimeuot: 3m\n", 7, "timeuot", "is no command", "timeout"),
        (HEAD + "---\nkind: Commands\na: {uses: x, script: y}\n", 7, "a", "has script and uses", None),
        (HEAD + "---\nkind: Commands\na: {env: [B]}\n", 7, "a", "is no command", None),
        (HEAD + "---\nkind: Commands\na: {script: x, env: [B=c]}\n", 7, "a.env[0]", "name of an environment", None),
        (HEAD + "---\nkind: Commands\na: {run: []}\n", 7, "a.run", "is empty", None),
        (HEAD + "---\nkind: Commands\na: {run: rm -r}\n", 7, "a.run", 'a list, not the text "rm -r"', None),
        (HEAD + "---\nkind: Commands\na: {usse: x, script: y}\n", 7, "a.usse", "no such key", "uses"),
        (HEAD + "---\nkind: Commands\na: {script: y, origin: x, sha256: a" + "0" * 63 + "}\n", 7, "a.origin", "", None),
        (HEAD + "---\nkind: Commands\nmax_attempts: 0\n", 7, "max_attempts", "at least 1", None),
        (HEAD + "---\nkind: Commands\ninherit_env: no\n", 7, "inherit_env", 'true or false, not the text "no"', None),
        (HEAD + "---\nkind: Commands\n---\nkind: Commands\n", 8, "", "Commands document in line 6 already", None),
        (HEAD + "---\nkind: experiment\n", 6, "kind", "has to be Commands", "Experiment"),
        (HEAD + "---\nkind: 3\n", 6, "kind", "has to be Commands", None),
        (HEAD + "---\nname: x\n", 6, "kind", "needs the key", None),
        (HEAD + "---\n- 3\n", 6, "", "has to be a mapping", None),
        (HEAD + "---\n" + HEAD, 6, "", "there is an Experiment in line 1 already", None),
        ("kind: LLMSpec\nname: m\nmodel: x\n", None, "", "no Experiment", None),
        ("", None, "", "no Experiment", None),
        ("# nothing\n---\n---\n", None, "", "no Experiment", None),
        (HEAD + "name: f\n", 5, "name", "twice, first in line 2", None),
        (HEAD + "3: f\n", 5, "3", "a key has to be text", None),
        (HEAD + "? [a]\n: 3\n", 5, "", "a key has to be text, not a list", None),
        (HEAD + "concurrency: !!python/object/apply:os.system [x]\n", 5, "concurrency", "tag !!python/object", None),
        (HEAD + "concurrency: !!int '3'\n", 5, "concurrency", "tag !!int", None),
        (HEAD + "concurrency: *x\n", 5, "concurrency", "no anchor", None),
        (HEAD + "pipeline: {with: &a {b: *a}}\n", 5, "pipeline.with.b", "stands inside", None),
        (HEAD + "pipeline: {with: {<<: 3}}\n", 5, 'pipeline.with.<<', "alias of a mapping", None),
        (HEAD + 'pipeline: {with: {a: "\\ud800"}}\n', 5, "pipeline.with.a", "surrogate", None),
        (HEAD + 'provider: "a\\0b"\n', 5, "provider", "holds a NUL", None),
        (HEAD + 'concurrency: "a\\n\\n  b"\n', 5, "concurrency", 'not the text "a b"', None),
        (HEAD + "limits:\n\ttimeout: 5m\n", 6, "", "a tab", None),
        (HEAD + "provider: 'docker\n", 5, "", "is not YAML", None),
        (HEAD + "provider: {a: [}\n", 5, "", "is not YAML", None),
        (HEAD + "provider: a: b\n", 5, "", "is not YAML", None),
        (HEAD + "pipeline: " + "[" * 200 + "\n", 5, "pipeline" + "[0]" * 64, "deeper than 64", None),
        (HEAD + "# \x07\n", 5, "", "U+0007", None),
        (HEAD.encode() + b"# \xff\n", 5, "", "not UTF-8", None),
        (HEAD.encode("utf-16"), 1, "", "not UTF-8", None),
    ],
)  # fmt: skip
def test_a_problem_has_line_path_and_nearest_name(
    tmp_path: Path, text: str | bytes, line: int | None, path: str, words: str, near: str | None
) -> None:
    problem = _problems(tmp_path, text)[0]
    assert (problem.line, problem.path, problem.nearest) == (line, path, near), problem
    assert words in problem.message
    assert problem.file == tmp_path / "e.yaml"


def test_a_problem_is_told_once_though_what_follows_from_it_is_wrong_too(tmp_path: Path) -> None:
    assert "needs this key" in _only(tmp_path, "kind: Experiment\nname: e\nmatrix: {agents: [nop]}\n").message
    _only(tmp_path, HEAD + "limits: {timeout: 1e400}\n")
    _only(tmp_path, HEAD + "concurrency: *x\n")
    _only(tmp_path, "kind: Experiment\nname: e\ncases: [a]\nmatrix: {agents: [nop]}\n")


def test_all_problems_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = (
        'kind: Experiment\nname: 3\ncases: [a, {path: 3}]\nmatrix: {agents: [3], trails: 1}\nconcurrency: "1"\n'
        'limits: {a: "b}\n'
        "---\nkind: LLMSpec\nname: m\nprice: {in: '3'}\n"
        "---\nkind: Commands\nx: 3\n"
        "---\nkind: Nope\n"
    )
    lines = [problem.line for problem in _problems(tmp_path, text)]
    # The first document cannot be read, which hides nothing of the others.
    assert lines == [6, 8, 10, 13, 15]
    lines = [problem.line for problem in _problems(tmp_path, text.replace('"b}', "b}"))]
    assert lines == [2, 3, 3, 4, 4, 5, 6, 8, 10, 13, 15]


def test_a_pasted_key_is_not_repeated(tmp_path: Path) -> None:
    problems = _problems(tmp_path, HEAD + "---\nkind: LLMSpec\nname: m\nmodel: x\napi_key_env: sk-ant-123\n")
    assert "sk-ant-123" not in str(ExperimentError(problems))


def test_aliases_that_stand_for_billions_of_values_are_refused(tmp_path: Path) -> None:
    laughs = "pipeline:\n  with:\n    a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for number in range(1, 12):
        laughs += f"    a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 10)}]\n"
    problem = _only(tmp_path, HEAD + laughs)
    assert "aliases repeat more than 100000 values" in problem.message


def test_merge_keys_that_stand_for_billions_of_values_are_refused(tmp_path: Path) -> None:
    wide = ", ".join(f"k{number}: 1" for number in range(1000))
    merged = "".join(f"    b{number}: {{<<: *a}}\n" for number in range(1000))
    problem = _only(tmp_path, HEAD + f"pipeline:\n  with:\n    a: &a {{{wide}}}\n{merged}")
    assert "aliases repeat" in problem.message


def test_a_huge_file_is_refused_without_reading_it_all(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ExperimentError, match="larger than 4 MiB"):
        load(path)


@pytest.mark.parametrize("name", ["none.yaml", "."])
def test_what_is_no_file_is_said(tmp_path: Path, name: str) -> None:
    with pytest.raises(ExperimentError, match="cannot be read"):
        load(tmp_path / name)


def test_what_is_left_of_a_wrong_file_can_be_checked_further(tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(
        "kind: Experiment\nname: 08\ncases: [a, {path: b}]\n"
        "matrix: {agents: [{nmae: x}, {name: nop, trials: '3'}], trails: 1}\nconcurrency: x\n"
    )
    submission, problems = read(path)
    assert len(problems) == 7
    assert submission is not None
    assert (submission.experiment.name, submission.experiment.cases[0].path) == ("08", "b")
    assert [agent.name for agent in submission.experiment.matrix.agents] == ["nop"]
    # By the index that the user knows.
    assert submission.place("matrix.agents[0].name").path == "matrix.agents[1].name"
    assert submission.place("cases[0].path").path == "cases[1].path"
