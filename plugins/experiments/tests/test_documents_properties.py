"""Whatever a file holds: it is read as it says, or refused with a place; nothing else happens."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from agentix.plugins.experiments.documents import ExperimentError, Submission, load
from agentix.plugins.experiments.documents.composing import read_documents
from agentix.plugins.experiments.documents.paths import parse_path, path_text
from agentix.plugins.experiments.documents.problems import Problem
from agentix.plugins.experiments.documents.values import parse_duration

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn", "Co", "Cf")), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(TEXT.filter(lambda key: key != "<<"), inner, max_size=4)
    ),
    max_leaves=12,
)
SHORT = settings(max_examples=150, deadline=None)


@SHORT
@given(VALUES)
def test_json_is_yaml(value: Any) -> None:
    problems: list[Problem] = []
    found = read_documents(Path("f"), json.dumps({"value": value}, ensure_ascii=False), problems)
    assert (problems, [node.data() for node in found]) == ([], [{"value": value}])


@SHORT
@given(VALUES)
def test_what_a_yaml_library_writes_is_read_as_it_was(value: Any) -> None:
    import io

    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    stream = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.dump({"value": value}, stream)
    try:
        itself = yaml.load(stream.getvalue())
    except YAMLError:
        # It writes `{a: :0}`, which it cannot read itself.
        reject()
    if itself != {"value": value}:
        # It writes `{?0: null}`, which it reads as something else.
        reject()
    problems: list[Problem] = []
    (node,) = read_documents(Path("f"), stream.getvalue(), problems)
    if not any("alias" in problem.message or "number" in problem.message for problem in problems):
        assert (problems, node.data()) == ([], {"value": value})


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab:-[]{}#&*!|>'\"%@`,?\n \t.<~0", max_size=40))
def test_any_text_is_read_or_refused_with_a_line_that_it_has(text: str) -> None:
    problems: list[Problem] = []
    read_documents(Path("f"), text, problems)
    for problem in problems:
        assert problem.line is not None
        assert 1 <= problem.line <= text.count("\n") + 1, (text, problem)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_refused_by_the_one_error(tmp_path_factory: Any, data: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "e.yaml"
    path.write_bytes(data)
    try:
        load(path)
    except ExperimentError as error:
        assert error.problems
    else:
        raise AssertionError("no experiment is as short as this")


PARTS = st.lists(
    st.text(string.printable, max_size=8) | st.integers(min_value=0, max_value=999), min_size=1, max_size=6
).filter(lambda parts: parts[0] != "" or len(parts) > 1)


@SHORT
@given(PARTS)
def test_a_path_is_read_as_it_was_written(parts: list[str | int]) -> None:
    assert list(parse_path(path_text(parts))) == parts


@SHORT
@given(st.text(max_size=30))
def test_any_text_can_be_asked_for_as_a_path(text: str) -> None:
    assert isinstance(list(parse_path(text)), list)


@SHORT
@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59))
def test_durations_add_up(hours: int, minutes: int, seconds: int) -> None:
    text = "".join(f"{n}{unit}" for n, unit in ((hours, "h"), (minutes, "m"), (seconds, "s")) if n)
    if text:
        assert parse_duration(text) == hours * 3600 + minutes * 60 + seconds


def _numbered(count: int, blank: list[int]) -> tuple[str, list[int]]:
    lines = ["kind: Experiment", "name: e", "matrix: {agents: [nop]}", "cases:"]
    places = []
    for index in range(count):
        lines += ["", "# nothing"] * (blank[index % len(blank)] if blank else 0)
        places.append(len(lines) + 1)
        lines.append(f"- path: case-{index}")
    return "\n".join(lines) + "\n", places


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 20), st.lists(st.integers(0, 3), max_size=5))
def test_places_are_right_wherever_things_stand(tmp_path_factory: Any, count: int, blank: list[int]) -> None:
    text, lines = _numbered(count, blank)
    path = tmp_path_factory.mktemp("places") / "e.yaml"
    path.write_text(text)
    submission: Submission = load(path)
    assert [submission.place(f"cases[{index}].path").line for index in range(count)] == lines
