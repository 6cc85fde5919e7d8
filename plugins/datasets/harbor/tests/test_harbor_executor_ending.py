"""Attempts, time limits and what is left running."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import anyio
import fake_harbor
import pytest
from fake_harbor import alive, failed, result

from agentix.api import (
    FailureCode,
)
from agentix.plugins.datasets.harbor import executor_process
from agentix.plugins.datasets.harbor.executor_process import project_name

pytestmark = pytest.mark.anyio

anyio_backend, harbor = fake_harbor.anyio_backend, fake_harbor.harbor


async def test_attempts_are_kept_and_the_last_one_counts(harbor: Any) -> None:
    bad, good = json.dumps(result(error="ApiOverloadedError")), json.dumps(result({"reward": 1.0}))
    harbor.script({"trials": [{"result.json": bad}]}, {"trials": []}, {"trials": [{"result.json": good}]})
    codes = frozenset({FailureCode.HOST_ERROR, FailureCode.ENV_FAILED})
    rollout = await harbor.run(max_attempts=5, retry_on=codes)
    assert (rollout.reward, rollout.attempts, len(rollout.notes)) == (1.0, 3, 2)
    assert "attempt 1 failed: HOST_ERROR: ApiOverloadedError" in rollout.notes[0]
    for number, code in ((1, "HOST_ERROR"), (2, "ENV_FAILED")):
        kept = harbor.directory / "attempts" / str(number)
        assert json.loads((kept / "failure.json").read_text())["code"] == code
        assert (kept / "harbor.log").exists()
    assert not (harbor.directory / "attempts/3/failure.json").exists()
    assert [(event.kind, event.attempt) for event in harbor.events if event.kind == "attempt_failed"] == [
        ("attempt_failed", 1),
        ("attempt_failed", 2),
    ]


async def test_an_agents_failure_and_a_last_attempt_are_final(harbor: Any) -> None:
    harbor.script({"trials": [{"result.json": json.dumps(result(error="AgentTimeoutError"))}]})
    codes = frozenset({FailureCode.HOST_ERROR})
    assert (await harbor.run(max_attempts=3, retry_on=codes)).attempts == 1
    harbor.script({"trials": [{"result.json": json.dumps(result(error="ApiError"))}]})
    rollout = await harbor.run(max_attempts=2, retry_on=codes)
    assert (failed(rollout)[0], rollout.attempts) == ("HOST_ERROR", 2)


async def stopped_while_it_waits(harbor: Any) -> tuple[Any, Path]:
    """A run that came as far as it was to come before its time limit, and where that is seen."""
    # On a machine that is busy it takes longer to come there.
    for number, timeout in enumerate((2, 8, 32, 128), 1):
        rollout = await harbor.run(inputs={"timeout": timeout})
        if (harbor.seen(number) / "started").exists():
            return rollout, harbor.seen(number)
    raise AssertionError("it does not come to where it waits")


@pytest.mark.parametrize("wait", ["polite", "stubborn"])
async def test_at_the_time_limit_everything_that_was_started_is_ended(
    harbor: Any, wait: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if wait == "stubborn":
        monkeypatch.setattr(executor_process, "GRACE_S", 4)
    mark = f"grandchild-{time.monotonic_ns()}"
    harbor.script({"trials": [], "wait": wait, "spawn": mark})
    rollout, seen = await stopped_while_it_waits(harbor)
    code, message = failed(rollout)
    assert code == "HOST_ERROR"
    assert "was stopped at its time limit" in message
    assert rollout.failure is not None
    assert rollout.failure.detail == "command_timeout"
    assert (seen / "asked").exists(), "it was not asked to end first"
    assert alive(mark) == []


async def test_a_reward_that_was_there_at_the_time_limit_counts(harbor: Any) -> None:
    harbor.script({"trials": [{"result.json": json.dumps(result({"reward": 1.0}))}], "wait": "polite"})
    rollout, _ = await stopped_while_it_waits(harbor)
    assert rollout.reward == 1.0
    assert rollout.notes == ("Harbor was stopped at its time limit after the trial was measured",)


async def test_a_cancelled_trial_ends_with_everything_that_it_started(harbor: Any) -> None:
    mark = f"grandchild-{time.monotonic_ns()}"
    harbor.script({"trials": [], "wait": "polite", "spawn": mark})
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(harbor.run)
            while not (harbor.seen() / "started").exists():  # noqa: ASYNC110  # another process says so
                await anyio.sleep(0.01)
            # One that has just turned into another program shows no command line for a moment.
            while not alive(mark):  # noqa: ASYNC110
                await anyio.sleep(0.01)
            scope.cancel()
    assert scope.cancelled_caught
    assert (harbor.seen() / "asked").exists()
    assert alive(mark) == []


async def test_what_harbor_leaves_running_ends_with_it(harbor: Any) -> None:
    mark = f"grandchild-{time.monotonic_ns()}"
    harbor.script({"trials": [{"result.json": json.dumps(result({"reward": 1.0}))}], "spawn": mark})
    assert (await harbor.run()).reward == 1.0
    assert alive(mark) == []


async def test_containers_that_are_left_are_removed_or_told(harbor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (harbor.root / "bin").mkdir()
    docker = harbor.root / "bin/docker"
    left = harbor.root / "left"
    docker.write_text(f"""#!/bin/sh
echo "$*" >> {harbor.root}/docker.txt
case "$1" in
ps) cat {left} ;;
compose) [ -n "$STAYS" ] || {{ grep -vx "$3" {left} > {left}.new; mv {left}.new {left}; }} ;;
esac
exit 0
""")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{harbor.root}/bin:{os.environ['PATH']}")
    left.write_text("task__0__env\ntask__0__verifier__trial\ntask__00\nsomebody\n")
    harbor.script({"trials": [{"agent/x": ""}], "kill": 9})
    rollout = await harbor.run(inputs={"environment": "docker"})
    assert (failed(rollout)[0], rollout.unreleased) == ("ENV_FAILED", ())
    assert left.read_text() == "task__00\nsomebody\n"
    left.write_text("task__0__env\n")
    monkeypatch.setenv("STAYS", "1")
    rollout = await harbor.run(inputs={"environment": "docker"})
    assert rollout.unreleased == ("task__0__env",)


@pytest.mark.parametrize(
    ("trial", "project"), [("Greeting__aB3", "greeting__ab3"), ("_x.y__1", "0_x-y__1"), ("été__1", "0-t-__1")]
)
def test_a_trials_project_is_called_as_harbor_calls_it(trial: str, project: str) -> None:
    assert project_name(trial) == project
