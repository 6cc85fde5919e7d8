from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentix.models import Usage
from agentix.trajectory import Recorder, ToolCall, read_trajectory, recover_trajectory, summarize_trajectory


def call(name: str) -> ToolCall:
    return ToolCall(tool_call_id=name, function_name="bash", arguments={"command": "ls"})


def test_a_recording_is_a_valid_trajectory_with_its_sums(tmp_path: Path) -> None:
    path = tmp_path / "trajectory.json"
    with Recorder(path, agent="a", version="1", model="m", session_id="s") as recorder:
        recorder.message("system", "be good")
        recorder.message("user", "näh \u2028 \ud800 🚀")
        recorder.turn(
            "look", reasoning="why", tool_calls=[call("1"), call("2")], usage=Usage(input=9, cache_read=17102)
        )
        recorder.observe("a.py", call_id="1")
        recorder.observe("b.py", call_id="2")
        recorder.turn("done", usage=Usage(input=1, output=5, cache_write=7, cost_usd=0.25), extra={"k": [1]})
        recorder.observe("by itself")
        assert recorder.usage == Usage(
            input=10, output=5, cache_read=17102, cache_write=7, cost_usd=0.25, turns=2, tool_calls=2
        )
    document = read_trajectory(path)
    assert document["agent"] == {"name": "a", "version": "1", "model_name": "m"}
    assert [step["source"] for step in document["steps"]] == ["system", "user", "agent", "agent"]
    assert document["steps"][2]["metrics"] == {"prompt_tokens": 17111, "cached_tokens": 17102}
    assert document["steps"][2]["observation"]["results"][1] == {"source_call_id": "2", "content": "b.py"}
    assert document["final_metrics"] == {
        "total_prompt_tokens": 17119,
        "total_completion_tokens": 5,
        "total_cached_tokens": 17102,
        "total_cost_usd": 0.25,
        "total_steps": 4,
        "extra": {"cache_write_tokens": 7},
    }
    assert summarize_trajectory(path).usage == recorder.usage
    assert os.listdir(tmp_path) == ["trajectory.json"]


def test_an_exception_keeps_what_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "trajectory.json"
    with pytest.raises(KeyError), Recorder(path, agent="a") as recorder:
        recorder.turn("one")
        raise KeyError
    assert [step["message"] for step in read_trajectory(path)["steps"]] == ["one"]


def test_a_recording_without_steps_is_one_too(tmp_path: Path) -> None:
    path = tmp_path / "trajectory.json"
    with Recorder(path, agent="a"):
        pass
    assert read_trajectory(path)["steps"] == []


SCRIPT = """
import os, signal, sys
from pathlib import Path
from agentix.trajectory import Recorder, ToolCall
with Recorder(Path(sys.argv[1]), agent="a") as recorder:
    recorder.message("user", "do it")
    recorder.turn("x", tool_calls=[ToolCall(tool_call_id="1", function_name="f", arguments={})])
    recorder.observe("seen", call_id="1")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_recorded_is_recovered(tmp_path: Path) -> None:
    path = tmp_path / "trajectory.json"
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not path.exists()
    assert recover_trajectory(path)
    assert read_trajectory(path)["steps"][1]["observation"]["results"][0]["content"] == "seen"
    assert not recover_trajectory(path)


@pytest.mark.parametrize("torn", [b'{"step_id": 2, "sou', b"\xc3", b"", b'{"observed": {"content": "x"}}'])
def test_a_torn_last_line_is_dropped(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "trajectory.json"
    recorder = Recorder(path, agent="a")
    recorder.__enter__()
    recorder.turn("one")
    with (tmp_path / "trajectory.json.steps.jsonl").open("ab") as journal:
        journal.write(torn)
    assert recover_trajectory(path)
    assert len(read_trajectory(path)["steps"]) == 1
    assert "observation" not in read_trajectory(path)["steps"][0]
    recorder._journal.close()  # type: ignore[union-attr]


def test_an_earlier_recording_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "trajectory.json"
    with Recorder(path, agent="first"):
        pass
    with Recorder(path, agent="second") as recorder:
        recorder.turn("x")
        assert json.loads(path.read_text())["agent"]["name"] == "first"
    assert json.loads(path.read_text())["agent"]["name"] == "second"


def test_observing_what_was_not_called_is_an_error(tmp_path: Path) -> None:
    with Recorder(tmp_path / "t", agent="a") as recorder:
        with pytest.raises(ValueError, match="before the first step"):
            recorder.observe("x")
        recorder.turn("x", tool_calls=[call("1")])
        recorder.turn("y")
        with pytest.raises(ValueError, match="'1' is no tool call of the last step"):
            recorder.observe("x", call_id="1")
    with pytest.raises(ValueError, match="not open"):
        recorder.turn("late")


def test_a_value_that_json_cannot_hold_leaves_the_recording_whole(tmp_path: Path) -> None:
    path = tmp_path / "trajectory.json"
    with Recorder(path, agent="a") as recorder:
        recorder.turn("one")
        with pytest.raises(ValueError, match="not JSON compliant"):
            recorder.turn("two", extra={"n": float("nan")})
        recorder.turn("two")
    assert [step["step_id"] for step in read_trajectory(path)["steps"]] == [1, 2]
