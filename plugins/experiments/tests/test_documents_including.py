"""Commands of other files, and who may bring them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentix.plugins.experiments.documents import ExperimentError, Submission, load
from agentix.plugins.experiments.steps import check_file

HEAD = "kind: Experiment\nname: e\ncases: [{path: a}]\nmatrix: {agents: [nop]}\n---\nkind: Commands\n"


def _files(tmp_path: Path, **files: str) -> Path:
    for name, text in files.items():
        path = tmp_path / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path / "e.yaml"


def _scripts(submission: Submission) -> dict[str, str | None]:
    return {name: command.script for name, command in submission.commands.commands.items()}


def test_the_includer_wins_then_the_earlier_include(tmp_path: Path) -> None:
    path = _files(
        tmp_path,
        e=HEAD + "include: [b.yaml, c.yaml]\nx: {script: own}\n",
        b="kind: Commands\ninclude: [d.yaml]\nx: {script: b}\ny: {script: b}\ntimeout: 1m\n",
        c="kind: Commands\ny: {script: c}\nz: {script: c}\nw: {script: c}\ntimeout: 2m\nmax_attempts: 7\n",
        d="kind: Commands\ny: {script: d}\nw: {script: d}\n",
    )
    submission = load(path)
    assert _scripts(submission) == {"x": "own", "y": "b", "z": "c", "w": "d"}
    assert (submission.commands.timeout, submission.commands.max_attempts) == (60, 7)
    assert submission.commands.files["w"] == tmp_path / "d.yaml"
    assert submission.place("commands.w.script").file == tmp_path / "d.yaml"


def test_a_diamond_is_no_circle(tmp_path: Path) -> None:
    path = _files(
        tmp_path,
        e=HEAD + "include: [b.yaml, c.yaml]\n",
        b="kind: Commands\ninclude: [d.yaml]\n",
        c="kind: Commands\ninclude: [./d.yaml]\n",
        d="kind: Commands\nx: {script: d}\n",
    )
    assert _scripts(load(path)) == {"x": "d"}


def test_includes_are_relative_to_the_file_that_names_them(tmp_path: Path) -> None:
    path = _files(
        tmp_path,
        e=HEAD + "include: [lib/b.yaml]\n",
        lib__b="kind: Commands\ninclude: [c.yaml, ../d.yaml]\n",
        lib__c="kind: Commands\nx: {uses: x.sh}\n",
        d="kind: Commands\ny: {uses: y.sh}\n",
    )
    files = load(path).commands.files
    assert files["x"].parent.resolve() == tmp_path / "lib"
    assert files["y"].parent.resolve() == tmp_path


@pytest.mark.parametrize("first", ["e.yaml", "b.yaml", "../{name}/b.yaml"])
def test_a_circle_is_told_with_the_files_in_it(tmp_path: Path, first: str) -> None:
    path = _files(
        tmp_path,
        e=HEAD + f"include: [{first.format(name=tmp_path.name)}]\n",
        b="kind: Commands\ninclude: [c.yaml]\n",
        c="kind: Commands\n\ninclude:\n- e.yaml\n",
    )
    with pytest.raises(ExperimentError) as caught:
        load(path)
    (problem,) = caught.value.problems
    assert problem.path == "include[0]"
    assert "include each other" in problem.message
    assert (problem.file.name, problem.line) == (("e.yaml", 7) if first == "e.yaml" else ("c.yaml", 4))


@pytest.mark.parametrize(
    ("included", "where", "words"),
    [
        (None, "e.yaml:7: include[0]", "cannot be read: No such file"),
        ("", "b.yaml: ", "holds no Commands document"),
        ("kind: LLMSpec\nname: m\nmodel: x\n", "b.yaml:1: ", "no LLMSpec"),
        ("kind: Commands\n---\nkind: LLMSpec\nname: m\nmodel: x\n", "b.yaml:3: ", "no LLMSpec"),
        ("kind: Commands\n---\nkind: Commands\n", "b.yaml:3: ", "Commands document in line 1 already"),
        ("kind: Commands\nx: {scirpt: y}\n", "b.yaml:2: x.scirpt", "did you mean 'script'"),
        ("kind: Commands\nx: [\n", "b.yaml:3: ", "is not YAML"),
    ],
)
def test_what_is_wrong_with_an_included_file(tmp_path: Path, included: str | None, where: str, words: str) -> None:
    path = _files(tmp_path, e=HEAD + "include: [b.yaml]\n", **({} if included is None else {"b": included}))
    with pytest.raises(ExperimentError) as caught:
        load(path)
    assert any(where in str(problem) and words in str(problem) for problem in caught.value.problems), caught.value


def test_what_a_file_that_cannot_be_read_may_hold_is_not_missed(tmp_path: Path) -> None:
    pipeline = (
        "pipeline:\n  per_case: [{uses: look, fix: mend}, {uses: admision}]\n"
        "  per_experiment: [{uses: ship, with: {using: send}}]\n"
    )
    head = HEAD.replace("---\n", pipeline + "---\n", 1)
    assert head != HEAD
    path = _files(tmp_path, e=head + "include: [gone.yaml]\n")
    assert [problem.path for problem in check_file(path).problems] == ["include[0]", "pipeline.per_case[1].uses"]
    path.write_text(head)
    assert len(check_file(path).problems) == 4


def test_a_file_is_named_without_detours(tmp_path: Path) -> None:
    path = _files(
        tmp_path,
        e=HEAD + "include: [lib/b.yaml]\n",
        lib__b="kind: Commands\ninclude: [../tools/c.yaml]\n",
        tools__c="kind: Commands\nx: {uses: ../bin/x.sh, surplus: 1}\n",
    )
    with pytest.raises(ExperimentError, match=r"x\.surplus") as caught:
        load(path)
    assert f"{tmp_path}/tools/c.yaml:2" in str(caught.value)
    (tmp_path / "tools/c.yaml").write_text("kind: Commands\nsource_git: {uses: ../bin/x.sh}\n")
    path.write_text(path.read_text().replace("{path: a}", "{source: git, repo: r}"))
    (problem,) = check_file(path).problems
    assert problem.message.startswith(f"there is no file {tmp_path}/bin/x.sh; ")


def test_a_link_among_the_directories_is_followed_before_it_is_left(tmp_path: Path) -> None:
    (tmp_path / "far/away").mkdir(parents=True)
    (tmp_path / "far/c.yaml").write_text("kind: Commands\nx: {script: far}\n")
    (tmp_path / "lib").symlink_to("far/away")
    path = _files(tmp_path, e=HEAD + "include: [lib/../c.yaml]\n", c="kind: Commands\nx: {script: near}\n")
    assert _scripts(load(path)) == {"x": "far"}


@pytest.mark.parametrize("written", ["b.yaml", "[3]", "{a: b}", "['']", ""])
def test_include_is_a_list_of_files(tmp_path: Path, written: str) -> None:
    path = _files(tmp_path, e=HEAD + f"include: {written}\n")
    with pytest.raises(ExperimentError, match="has to be a list of files"):
        load(path)


def test_a_long_chain_of_includes_ends(tmp_path: Path) -> None:
    chain = {f"f{number}": f"kind: Commands\ninclude: [f{number + 1}.yaml]\n" for number in range(400)}
    path = _files(tmp_path, e=HEAD + "include: [f0.yaml]\n", **chain)
    with pytest.raises(ExperimentError, match="more than 200 files are included"):
        load(path)


TRUSTED = "kind: Commands\ninclude: [more.yaml]\nharbor: {script: trusted}\n"
MORE = "kind: Commands\nship: {script: more}\n"


def test_commands_come_from_a_trusted_file(tmp_path: Path) -> None:
    path = _files(tmp_path, e=HEAD.split("---")[0], ops__trusted=TRUSTED, ops__more=MORE)
    submission = load(path, commands=tmp_path / "ops/trusted.yaml")
    assert _scripts(submission) == {"harbor": "trusted", "ship": "more"}
    assert submission.commands.files["harbor"] == tmp_path / "ops/trusted.yaml"


def test_a_submission_that_brings_commands_is_refused_and_its_includes_are_not_read(tmp_path: Path) -> None:
    path = _files(tmp_path, e=HEAD + "include: [evil.yaml]\nharbor: {script: mine}\n", ops=TRUSTED, more=MORE)
    with pytest.raises(ExperimentError) as caught:
        load(path, commands=tmp_path / "ops.yaml")
    (problem,) = caught.value.problems
    assert problem.line == 6
    assert "may not bring its own" in problem.message
    # Whoever includes is the submission all the same.
    path = _files(tmp_path, e=HEAD + "include: [evil.yaml]\n", evil="kind: Commands\nx: {script: y}\n")
    with pytest.raises(ExperimentError, match="may not bring its own"):
        load(path, commands=tmp_path / "ops.yaml")


def test_what_is_wrong_with_the_trusted_file_is_told_with_the_rest(tmp_path: Path) -> None:
    path = _files(tmp_path, e=HEAD.split("---")[0] + "zzz: 1\n", ops="kind: Commands\nx: {}\n")
    with pytest.raises(ExperimentError) as caught:
        load(path, commands=tmp_path / "ops.yaml")
    assert [problem.file.name for problem in caught.value.problems] == ["e.yaml", "ops.yaml"]
    with pytest.raises(ExperimentError, match=r"none.yaml: cannot be read"):
        load(path, commands=tmp_path / "none.yaml")


def test_a_link_in_a_circle_cannot_be_read(tmp_path: Path) -> None:
    path = _files(tmp_path, e=HEAD + 'include: [loop.yaml, "nul-\\0.yaml"]\n')
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    with pytest.raises(ExperimentError) as caught:
        load(path)
    assert sorted(problem.path for problem in caught.value.problems) == ["include[0]", "include[1]"]
