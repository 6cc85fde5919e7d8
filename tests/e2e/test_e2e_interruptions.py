"""Runs that are stopped, killed and taken up again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.real

SLEEPER = "echo 42 > /app/answer.txt; exec -a MARK sleep 300"


def until(true: Callable[[], object], *, seconds: float = 120) -> None:
    """Poll for something that another process does."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def sleeping(shop: Any, *, trials: int) -> tuple[subprocess.Popen[str], list[str]]:
    """A run in which every agent sleeps, and its options."""
    for number in range(trials):
        shop.task(f"sleep-{number}")
    options = ["--agent", "command", "--agent-opt", f"script={shop.script('agent.sh', SLEEPER)}"]
    process = shop.start(*options)
    until(lambda: len(shop.alive()) >= trials or process.poll() is not None)
    assert process.poll() is None, process.communicate()[0]
    return process, options


@pytest.mark.parametrize(
    ("number", "times", "code"),
    [(signal.SIGINT, 1, 130), (signal.SIGINT, 2, 130), (signal.SIGTERM, 1, 143)],
    ids=["ctrl-c", "ctrl-c-twice", "sigterm"],
)
def test_a_signal_stops_the_run_and_leaves_nothing(shop: Any, number: int, times: int, code: int) -> None:
    process, _ = sleeping(shop, trials=3)
    for _ in range(times):
        process.send_signal(number)
        time.sleep(0.3 if times > 1 else 0)  # the two signals have to be two
    said, _ = process.communicate(timeout=120)
    assert process.returncode == code, said
    assert shop.alive() == []
    assert "Traceback" not in said
    results = shop.path / "runs/run/results.jsonl"
    assert not results.exists() or results.read_text() == ""


def test_a_stopped_run_is_taken_up_where_it_was(shop: Any) -> None:
    process, options = sleeping(shop, trials=2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    shop.script("agent.sh", "echo 42 > /app/answer.txt")
    done = shop.run(*options, "--force")
    assert done.code == 0, done.said
    assert sorted(record["reward"] for record in done.records) == [1.0, 1.0]


def test_what_a_killed_run_leaves_is_found_and_only_that(shop: Any, tmp_path: Path) -> None:
    process, options = sleeping(shop, trials=2)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    gc = shop.command(Path(shop.argv()[0]).with_name("agentix"), "gc")
    assert gc.code == 0, gc.said
    until(lambda: not shop.alive())
    done = shop.run(*options, "--timeout", "1s", "--force")
    assert done.code == 0, done.said
    assert len(done.records) == 2


def test_gc_leaves_a_live_run_alone(shop: Any) -> None:
    process, _ = sleeping(shop, trials=1)
    try:
        gc = shop.command(Path(shop.argv()[0]).with_name("agentix"), "gc")
        assert gc.code == 0, gc.said
        assert process.poll() is None and len(shop.alive()) >= 1
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)


def test_a_run_that_is_being_written_is_not_written_by_another(shop: Any) -> None:
    process, options = sleeping(shop, trials=1)
    try:
        second = shop.run(*options)
        assert second.code == 2
        assert str(process.pid) in second.err
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)


def test_a_finished_run_again_is_the_same_to_the_byte(shop: Any) -> None:
    shop.task("answer")
    first = shop.run("--agent", "oracle")
    before = {path: path.read_bytes() for path in sorted(first.run_dir.rglob("*.json*")) if path.is_file()}
    again = shop.run("--agent", "oracle")
    assert again.code == first.code == 0
    assert {path: path.read_bytes() for path in before} == before


def test_another_configuration_is_refused_with_the_difference(shop: Any) -> None:
    shop.task("answer")
    shop.run("--agent", "oracle")
    other = shop.run("--agent", "nop")
    assert other.code == 2
    assert "oracle" in other.err and "nop" in other.err and "--force" in other.err


def test_more_trials_of_a_run_run_only_the_new_ones(shop: Any) -> None:
    shop.task("answer")
    options = ["--agent", "command", "--agent-opt", f"script={shop.script('agent.sh', 'echo 42 > /app/answer.txt')}"]
    shop.run(*options)
    done = shop.run(*options, "--trials", "3")
    assert done.code == 0, done.said
    assert sorted(record["index"] for record in done.records) == [1, 2, 3]


def test_few_file_descriptors_are_enough(shop: Any) -> None:
    for number in range(12):
        shop.task(f"answer-{number:02}")
    argv = shop.argv("--agent", "oracle", "--n-concurrent", "12")
    done = shop.command("bash", "-c", 'ulimit -n 128 && exec "$@"', "-", *argv, run_dir=shop.path / "runs/run")
    assert done.code == 0, done.said
    assert [record["reward"] for record in done.records] == [1.0] * 12


def test_a_torn_last_line_is_run_again(shop: Any) -> None:
    for number in range(2):
        shop.task(f"answer-{number}")
    first = shop.run("--agent", "oracle")
    results = first.run_dir / "results.jsonl"
    lines = results.read_bytes().splitlines(keepends=True)
    results.write_bytes(lines[0] + lines[1][: len(lines[1]) // 2])
    done = shop.run("--agent", "oracle")
    assert done.code == 0, done.said
    assert sorted(record["case"] for record in done.records) == sorted(record["case"] for record in first.records)


def test_a_closed_stdout_does_not_end_the_run(shop: Any) -> None:
    for number in range(3):
        shop.task(f"answer-{number}")
    argv = " ".join(shop.argv("--agent", "oracle"))
    subprocess.run(["bash", "-c", f"{argv} | head -1"], cwd=shop.path, env=os.environ, check=False, timeout=120)
    assert len((shop.path / "runs/run/results.jsonl").read_text().splitlines()) == 3
