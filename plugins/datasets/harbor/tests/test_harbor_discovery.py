from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agentix.api import DatasetError
from agentix.plugins.datasets.harbor import HarborConfig, HarborDataset

MakeTask = Callable[..., Path]


@pytest.fixture
def task(tmp_path: Path) -> MakeTask:
    def make(name: str, toml: str = "") -> Path:
        directory = tmp_path / name
        (directory / "tests").mkdir(parents=True)
        (directory / "tests" / "test.sh").write_text("#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n")
        (directory / "environment").mkdir()
        (directory / "environment" / "Dockerfile").write_text("FROM scratch\n")
        (directory / "instruction.md").write_text("Do it.\n")
        (directory / "task.toml").write_text(toml)
        return directory

    return make


def ids(*paths: Path | str, **options: object) -> list[str]:
    config = HarborConfig.model_validate({"path": [str(path) for path in paths], **options})
    return [instance["instance_id"] for instance in HarborDataset(config).instances()]


def test_a_path_is_one_task(task: MakeTask) -> None:
    assert ids(task("one")) == ["one"]


def test_one_path_needs_no_list(tmp_path: Path) -> None:
    for value in (tmp_path, str(tmp_path), [tmp_path], (str(tmp_path),)):
        assert HarborConfig.model_validate({"path": value}).path == (str(tmp_path),)


def test_a_directory_of_tasks_is_read_in_the_order_of_names(task: MakeTask, tmp_path: Path) -> None:
    for name in ("b", "a", "Z", "a.b"):
        task(name)
    (tmp_path / "no-task").mkdir()
    (tmp_path / "README").touch()
    assert ids(tmp_path) == ["Z", "a", "a.b", "b"]


def test_a_glob_takes_what_is_a_task(task: MakeTask, tmp_path: Path) -> None:
    for name in ("x/one", "x/two", "y/three"):
        task(name)
    (tmp_path / "x" / "notes").mkdir()
    assert ids(tmp_path / "x" / "*") == ["one", "two"]
    assert ids(tmp_path / "**") == ["one", "two", "three"]


def test_several_paths_come_one_after_the_other_and_no_task_twice(task: MakeTask, tmp_path: Path) -> None:
    for name in ("a", "b"):
        task(name)
    (tmp_path / "elsewhere").mkdir()
    assert ids(tmp_path / "b", tmp_path, tmp_path / "*") == ["b", "a"]


def test_a_path_that_exists_is_no_glob(task: MakeTask) -> None:
    assert ids(task("[x]*")) == ["[x]*"]


@pytest.mark.parametrize("name", ["with space", "ä", "a,b", "-x", "x" * 255, "'", "$(x)", "a\nb"])
def test_ids_with_odd_characters_are_fine(task: MakeTask, name: str) -> None:
    assert ids(task(name)) == [name]


def test_relative_paths_are_made_absolute(task: MakeTask, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = task("one")
    monkeypatch.chdir(directory.parent)
    (instance,) = HarborDataset(HarborConfig(path=("one",))).instances()
    assert instance["path"] == str(directory)
    monkeypatch.chdir(directory)
    assert ids(".") == ["one"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nothing", "nothing: there is no such directory"),
        ("*.none", "nothing matches it"),
        ("empty*", "none of its 1 matches has a task.toml"),
        ("empty", "neither it nor a directory right below it has a task.toml"),
        ("file", "is a file, and a task is a directory"),
        ("broken", "has instruction.md but no task.toml"),
    ],
)
def test_paths_without_a_task(tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "instruction.md").touch()
    with pytest.raises(DatasetError) as caught:
        ids(tmp_path / path)
    assert message in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_task_toml_is_answered_with_its_directory(task: MakeTask) -> None:
    directory = task("one")
    with pytest.raises(DatasetError, match=f"Give {directory}"):
        ids(directory / "task.toml")


def test_two_tasks_with_one_id_are_refused_with_both_places(task: MakeTask, tmp_path: Path) -> None:
    first, second = task("x/same"), task("y/same")
    with pytest.raises(DatasetError) as caught:
        ids(tmp_path / "*" / "*")
    assert str(first) in str(caught.value)
    assert str(second) in str(caught.value)


def test_a_link_to_a_task_is_the_same_task(task: MakeTask, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(task("one"))
    assert ids(tmp_path / "one", tmp_path / "alias") == ["one"]


def test_every_malformed_task_is_listed_before_any_is_run(task: MakeTask, tmp_path: Path) -> None:
    task("good")
    (task("no-instruction") / "instruction.md").unlink()
    (task("no-tests") / "tests" / "test.sh").unlink()
    task("bad-toml", "[agent")
    task("bad-step", '[[steps]]\nname = "a"')
    (task("latin") / "instruction.md").write_bytes(b"\xe9")
    with pytest.raises(DatasetError) as caught:
        next(iter(HarborDataset(HarborConfig(path=(str(tmp_path),))).instances()))
    text = str(caught.value)
    for place in (
        "no-instruction/instruction.md",
        "no-tests/tests/test.sh",
        "bad-toml/task.toml:1:7",
        "steps/a",
        "latin",
    ):
        assert place in text
    assert "latin/instruction.md: not UTF-8" in text
    assert "skip_invalid" in text


def test_malformed_tasks_can_be_left_out(task: MakeTask, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    task("good")
    task("bad", "[agent")
    with caplog.at_level(logging.WARNING):
        assert ids(tmp_path, skip_invalid=True) == ["good"]
    assert "left out" in caplog.text
    assert "bad/task.toml:1:7" in caplog.text


def test_leaving_out_every_task_is_an_error(task: MakeTask) -> None:
    with pytest.raises(DatasetError):
        ids(task("bad", "[agent"), skip_invalid=True)


def test_an_unknown_key_is_told_once_a_run(task: MakeTask, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(5):
        task(f"t{number}", "[agent]\ntimout_sec = 3\n")
    with caplog.at_level(logging.WARNING):
        assert len(ids(tmp_path)) == 5
    (record,) = caplog.records
    assert "agent.timout_sec" in record.message
    assert "did you mean agent.timeout_sec?" in record.message
    assert "t0, t1, t2 and 2 more" in record.message


def test_a_name_that_is_not_utf_8_is_refused(task: MakeTask, tmp_path: Path) -> None:
    os.rename(task("x"), os.fsencode(tmp_path) + b"/\xff")
    with pytest.raises(DatasetError, match="has to be UTF-8"):
        ids(tmp_path)


@pytest.mark.parametrize("options", [{}, {"path": []}, {"path": "x", "paht": "y"}, {"path": "x", "services": "stop"}])
def test_wrong_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"path|paht|services"):
        HarborConfig.model_validate(options)


def test_directories_beside_tasks_that_are_none_are_named_once(
    task: MakeTask, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    task("x/one")
    task("x/two")
    for number in range(7):
        (tmp_path / "x" / f"lost-{number}" / "tests").mkdir(parents=True)
    (tmp_path / "x" / ".git").mkdir()
    (tmp_path / "x" / "README").touch()
    dataset = HarborDataset(HarborConfig.model_validate({"path": [str(tmp_path / "x")]}))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert [instance["instance_id"] for instance in dataset.instances()] == ["one", "two"]
    (said,) = caplog.messages
    assert said.startswith(f"left out, having no task.toml: {tmp_path}/x/lost-0, ")
    assert said.endswith("lost-4 and 2 more")


def test_a_glob_names_what_is_no_task_and_not_what_lies_around_or_inside_of_one(
    task: MakeTask, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    task("x/one")
    (tmp_path / "y" / "lost").mkdir(parents=True)
    with caplog.at_level(logging.WARNING):
        assert ids(tmp_path / "**") == ["one"]
    assert caplog.messages == [f"left out, having no task.toml: {tmp_path}/y, {tmp_path}/y/lost"]
