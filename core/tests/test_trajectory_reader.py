from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.errors import TrajectoryError
from agentix.models import Usage
from agentix.trajectory import check_trajectory, iter_steps, read_trajectory, summarize_trajectory
from agentix.trajectory.json_stream import read_object

AGENT = {"name": "a", "version": "1"}


def trajectory(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    numbered = [{"step_id": n, "message": "", **step} for n, step in enumerate(steps, 1)]
    return {"schema_version": "ATIF-v1.2", "session_id": "s", "agent": AGENT, "steps": numbered, **more}


def turn(**metrics: Any) -> dict[str, Any]:
    return {"source": "agent", "metrics": metrics}


CALL = {"tool_call_id": "1", "function_name": "f", "arguments": {}}

FAULTS: list[tuple[Any, str]] = [
    ("[]", "not JSON that holds a trajectory: '{' is missing at character 0"),
    ("", "not JSON that holds a trajectory"),
    ("{", "not JSON that holds a trajectory"),
    ('{"steps": [}', "not JSON that holds a trajectory"),
    ('{"steps": []} x', "something follows the end at character 14"),
    ('{"steps": [], "steps": []}', "the key 'steps' is there twice"),
    ('{"schema_version": NaN, "steps": []}', "NaN is not JSON"),
    ('{"a": ' + "[" * 100_000, "nesting is too deep"),
    ('{"a": ' + "1" * 10_000 + "}", "not JSON that holds a trajectory"),
    ("\udcff", "not JSON that holds a trajectory"),
    ({"schema_version": "ATIF-v1.2", "agent": AGENT}, "steps: a list is missing"),
    ({**trajectory(), "schema_version": "2"}, "schema_version: String should match"),
    ({**trajectory(), "agent": {}}, "agent.name: Field required"),
    (trajectory({"source": "robot"}), "steps.0.source: Input should be 'system', 'user' or 'agent'"),
    (trajectory({"source": "user"}, {"source": "user", "step_id": 7}), "steps.1.step_id: is 7, should be 2"),
    (trajectory({"source": "user", "step_id": "1"}), "steps.0.step_id: Input should be a valid integer"),
    (trajectory({"source": "user", "metrics": {}}), "steps.0: a step of the user has no metrics"),
    (trajectory({"source": "agent", "tool_calls": [CALL, CALL]}), "steps.0: two tool calls"),
    (trajectory({"source": "agent", "tool_calls": [{**CALL, "arguments": "x"}]}), "steps.0.tool_calls.0.arguments"),
    (
        trajectory({"source": "agent", "observation": {"results": [{"source_call_id": "9"}]}}),
        "steps.0: source_call_id '9' is no tool call of this step",
    ),
    (trajectory(turn(prompt_tokens=-1)), "steps.0.metrics.prompt_tokens: Input should be greater"),
    (trajectory(turn(cost_usd="1")), "steps.0.metrics.cost_usd: Input should be a valid number"),
]


@pytest.mark.parametrize(("content", "message"), FAULTS)
def test_a_fault_is_named_with_its_place(tmp_path: Path, content: Any, message: str) -> None:
    path = tmp_path / "t.json"
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    for read in (read_trajectory, summarize_trajectory):
        with pytest.raises(TrajectoryError) as caught:
            read(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert message in str(caught.value)


def test_what_later_versions_add_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    parts = [{"type": "text", "text": "look"}, {"type": "image", "source": {"path": "a.png"}}]
    document = trajectory({"source": "user", "message": parts, "llm_call_count": 2}, notes="n", trajectory_id="t")
    path.write_text(json.dumps(document))
    assert read_trajectory(path) == document
    assert next(iter_steps(path)).message == parts


@pytest.mark.parametrize(
    ("metrics", "usage"),
    [
        ({"prompt_tokens": 17111, "cached_tokens": 17102}, Usage(input=9, cache_read=17102)),
        ({"prompt_tokens": 9, "cached_tokens": 17102}, Usage(input=9, cache_read=17102)),
        ({"prompt_tokens": 10}, Usage(input=10)),
        ({"cached_tokens": 3}, Usage(cache_read=3)),
        (
            {"prompt_tokens": 10, "cached_tokens": 3, "extra": {"cache_creation_input_tokens": 2}},
            Usage(input=5, cache_read=3, cache_write=2),
        ),
        ({"prompt_tokens": 10, "extra": {"cache_write_tokens": "2"}}, Usage(input=10)),
        ({}, Usage()),
        ({"cost_usd": 0, "completion_tokens": 0}, Usage(cost_usd=0.0, output=0)),
    ],
)
def test_usage_has_one_normal_form(metrics: dict[str, Any], usage: Usage) -> None:
    spent = check_trajectory(trajectory({"source": "user"}, turn(**metrics))).usage
    assert spent == usage + Usage(turns=1, tool_calls=0)


def test_totals_win_over_sums_and_sums_fill_their_gaps() -> None:
    final = {"total_prompt_tokens": 100, "total_cached_tokens": 40, "total_cost_usd": 2.5}
    steps = (turn(prompt_tokens=1, completion_tokens=2), turn(prompt_tokens=3, completion_tokens=4))
    usage = check_trajectory(trajectory(*steps, final_metrics=final)).usage
    assert usage == Usage(input=60, cache_read=40, output=6, cost_usd=2.5, turns=2, tool_calls=0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


class Slow(io.StringIO):
    """Gives one character less than asked for, at most three."""

    def read(self, size: int | None = -1) -> str:
        return super().read(min(3, size or 3))


@given(
    before=st.dictionaries(st.text(max_size=3).filter(lambda key: key != "steps"), JSON, max_size=3),
    steps=st.lists(JSON, max_size=5),
    indent=st.sampled_from([None, 1]),
)
def test_a_stream_is_read_as_a_whole_would_be(before: dict[str, Any], steps: list[Any], indent: int | None) -> None:
    text = json.dumps({**before, "steps": steps}, indent=indent)
    members = list(read_object(Slow(text), array="steps"))
    assert [value for key, value in members if key is None] == steps
    assert {key: value for key, value in members if key not in (None, "steps")} == before


@given(st.text(alphabet='{}[],:"\\ 1aentrulfs.-', max_size=30))
def test_what_is_not_json_is_a_value_error_or_what_json_says(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        expected = None
    try:
        got = list(read_object(Slow(text), array="steps"))
    except ValueError:
        got = None
    if isinstance(expected, dict) and "steps" not in expected:
        assert got is not None
        assert dict(got) == expected
    elif not isinstance(expected, dict):
        assert got is None


BIG = """
import resource, sys
from pathlib import Path
from agentix.trajectory import Recorder, summarize_trajectory
path = Path(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with Recorder(path, agent="a") as recorder:
    for _ in range(2000):
        recorder.turn("x" * 20_000)
assert summarize_trajectory(path).steps == 2000
print(path.stat().st_size, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def test_a_large_trajectory_costs_little_memory(tmp_path: Path) -> None:
    out = subprocess.run(
        [sys.executable, "-c", BIG, str(tmp_path / "t.json")], check=True, capture_output=True, text=True
    ).stdout
    size, memory = map(int, out.split())
    assert size > 40_000_000
    assert memory < 10_000_000
