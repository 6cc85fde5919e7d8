from __future__ import annotations

import json
import os
import signal
import time

import pytest


@pytest.fixture
def hanging(toy):
    """A run of four trials whose agents all work and do not end."""
    fifo = toy.path / "working"
    os.mkfifo(fifo)
    process = toy.start("--id", "r", "--agent-opt", "hang=true", "--agent-opt", f"counter={fifo}")
    # Open for writing too: otherwise the end of one writer is the end of the file.
    with os.fdopen(os.open(fifo, os.O_RDWR), encoding="utf-8") as file:
        working = [file.readline() for _ in range(4)]
    assert sorted(working) == [f"task-{number}\n" for number in range(4)]
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("times", [1, 2])
def test_a_signal_ends_the_run_and_what_ran_runs_again_on_resume(toy, hanging, number, code, times):
    for _ in range(times):
        hanging.send_signal(number)
    said, _ = hanging.communicate(timeout=120)
    assert hanging.returncode == code
    assert f"{number.name}: no new trials" in said
    assert "4 unrun" in said
    assert "--id r" in said
    assert "Traceback" not in said
    assert toy.lines("r") == []
    assert json.loads((toy.path / "runs/r/progress.json").read_text())["state"] == "interrupted"
    resumed = toy.rollout("--id", "r", "--force")
    assert resumed.code == 0
    assert len(toy.lines("r")) == 4


def test_under_nohup_a_terminal_that_goes_away_ends_nothing(toy):
    fifo = toy.path / "working"
    os.mkfifo(fifo)
    process = toy.start(
        *("--id", "r", "--dataset-opt", "n=1", "--agent-opt", f"counter={fifo}"),
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    # The agent waits for a reader, which is there only after the signal.
    while not (toy.path / "runs/r/trials/task-0-Agent-1").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGHUP)
    assert fifo.read_text() == "task-0\n"
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "1 resolved" in said


def test_after_kill_9_the_next_run_takes_over(toy, hanging):
    hanging.kill()
    hanging.communicate()
    resumed = toy.rollout("--id", "r", "--force")
    assert resumed.code == 0
    assert f"taken over from process {hanging.pid}" in resumed.out
    assert len(toy.lines("r")) == 4


def test_a_second_run_of_the_same_id_is_refused_with_its_owner(toy, hanging):
    refused = toy.rollout("--id", "r", "--agent-opt", "hang=true")
    assert refused.code == 2
    assert f"process {hanging.pid}" in refused.err
    assert "being written by" in toy.agentix("show", "r").out
    hanging.send_signal(signal.SIGINT)
    hanging.communicate(timeout=120)
    assert toy.ran() == []
