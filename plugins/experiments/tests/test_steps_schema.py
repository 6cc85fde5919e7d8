"""The JSON Schema accepts what the file may say, refuses what it may not, and tells an editor what each key means."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from agentix.plugins.experiments.command_line.schema import app
from agentix.plugins.experiments.documents import ExperimentError, load
from agentix.plugins.experiments.documents.composing import read_documents
from agentix.plugins.experiments.documents.schema import StepSchema, schema
from agentix.plugins.experiments.steps.schema import experiment_schema


@pytest.fixture(scope="module")
def validator() -> Any:
    whole = experiment_schema()
    jsonschema.Draft202012Validator.check_schema(whole)
    return jsonschema.Draft202012Validator(whole)


def _documents(text: str) -> list[Any]:
    problems: list[Any] = []
    found = [node.data() for node in read_documents(Path("f"), text, problems)]
    assert problems == []
    return found


GOOD = [
    'kind: Experiment\nname: nightly\ncases: [{path: "cases/*"}]\nmatrix: {agents: [oracle], trials: 1}\n',
    "kind: Experiment\nname: e\ncase_defaults: {source: git, repo: r}\ncases: [{path: a}]\n"
    "matrix: {agents: [{name: a, id: b, trials: 2, options: {x: 1}}, c], llm_specs: [m]}\n"
    "provider: {name: docker, network: none}\nlimits: {timeout: 1h30m, max_cost_usd: 1}\nretry_on: [HOST_ERROR]\n"
    "pipeline: {per_case: {check_case: {}, other:}, per_experiment: [{uses: report, with: {dest: a.md}}]}\n",
    "kind: Commands\ntimeout: 30m\ninclude: [a.yaml]\nharbor: {uses: a.sh}\nship: {run: [a, b], env: [X]}\n",
    "kind: LLMSpec\nname: m\nmodel: x\nprovider: openai\nprice: {in: 1, out: 2.5}\napi_key_env: KEY\n",
]
BAD = [
    "kind: Nope\n",
    "name: e\n",
    "kind: Experiment\nname: e\ncases: []\nmatrix: {agents: [a]}\n",
    "kind: Experiment\nname: e\ncases: [{path: a}]\nmatrix: {agents: []}\n",
    "kind: Experiment\nname: e\ncases: [{path: a}]\nmatrix: {agents: [a], trails: 1}\n",
    "kind: Experiment\nname: e\ncases: [{path: a}]\nmatrix: {agents: [a], trials: '3'}\n",
    "kind: Experiment\nname: e\ncases: [{path: a}]\nmatrix: {agents: [a]}\nlimits: {timeout: 90}\n",
    "kind: Experiment\nname: e\ncases: [{path: a}]\nmatrix: {agents: [a]}\nlimits: {timeout: soon}\n",
    "kind: Experiment\nname: e\ncases: [{path: a}]\nmatrix: {agents: [a]}\nlimits:\n",
    "kind: Experiment\nname: e\ncases: [{path: a}]\nmatrix: {agents: [a]}\n"
    "pipeline: {per_experiment: [{uses: report, with: {dets: x}}]}\n",
    "kind: Commands\na: {run: [x], script: y}\n",
    "kind: Commands\na: {script: y, sha256: " + "a" * 64 + "}\n",
    "kind: Commands\ntimeuot: 3m\n",
    "kind: LLMSpec\nname: m\nmodel: x\napi: a\nprovider: b\n",
    "kind: LLMSpec\nname: m\nmodel: x\napi_key: secret\n",
]


@pytest.mark.parametrize("text", GOOD)
def test_what_the_file_may_say_is_valid(validator: Any, text: str) -> None:
    for document in _documents(text):
        validator.validate(document)


@pytest.mark.parametrize("text", BAD)
def test_what_the_file_may_not_say_is_invalid(validator: Any, text: str) -> None:
    for document in _documents(text):
        assert not validator.is_valid(document)


KEYS = st.sampled_from(
    ["name", "cases", "matrix", "limits", "provider", "pipeline", "concurrency", "trials", "agents", "path", "x"]
)
VALUES = st.recursive(
    st.sampled_from(["a", "5m", 1, 0, 1.5, True, None]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.dictionaries(KEYS, VALUES, max_size=3))
def test_a_file_that_loads_is_valid(validator: Any, tmp_path: Path, more: dict[str, Any]) -> None:
    document = {"kind": "Experiment", "name": "e", "cases": [{"path": "a"}], "matrix": {"agents": ["a"]}} | more
    path = tmp_path / "e.yaml"
    path.write_text(json.dumps(document))
    try:
        load(path)
    except ExperimentError:
        return
    validator.validate(document)


def _described(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, option in value.get("properties", {}).items() if isinstance(value.get("properties"), dict) else ():
            if not {"description", "$ref", "const"} & set(option):
                yield f"{path}.{name}"
        for key, item in value.items():
            if key not in ("if", "then"):
                yield from _described(item, f"{path}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from _described(item, path)


def test_every_key_of_the_file_says_what_it_is() -> None:
    assert list(_described(schema())) == []


def test_every_installed_step_is_offered_with_its_inputs(validator: Any) -> None:
    step = validator.schema["$defs"]["StepSpec"]
    offered = {one["const"]: one["description"] for one in step["properties"]["uses"]["anyOf"] if "const" in one}
    assert {"rollout", "report"} <= set(offered)
    assert "per_experiment" in offered["report"]
    assert validator.schema["$defs"]["report.with"]["additionalProperties"] is False


def test_inputs_of_two_steps_do_not_get_into_each_others_way() -> None:
    def inputs(kind: str) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/Inner"}},
            "required": ["a"],
            "$defs": {"Inner": {"type": kind}},
        }

    whole = schema({"one": StepSchema(inputs=inputs("string")), "two": StepSchema(inputs=inputs("integer"))})
    validator = jsonschema.Draft202012Validator(whole)
    head = {"kind": "Experiment", "name": "e", "cases": [{"path": "a"}], "matrix": {"agents": ["a"]}}

    def valid(*steps: dict[str, Any]) -> bool:
        return bool(validator.is_valid({**head, "pipeline": {"per_case": list(steps)}}))

    assert valid({"uses": "one", "with": {"a": "x"}}, {"uses": "two", "with": {"a": 1}})
    assert not valid({"uses": "one", "with": {"a": 1}})
    assert not valid({"uses": "two"})
    assert valid({"uses": "three", "with": {"anything": 1}})


def test_the_command_prints_it() -> None:
    done = CliRunner().invoke(app, [])
    assert done.exit_code == 0
    assert json.loads(done.output) == experiment_schema()
