"""A configured command as the executor, with real processes."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import anyio
import pytest
from killing import is_there

from agentix.api import LLM, AgentUse, Case, EnvFailed, FailureCode, Limits, Scope, StepContext, Trial, TrialWork
from agentix.plugins.experiments.commands import Command, CommandRunner
from agentix.plugins.experiments.steps.executors import run_command_executor

pytestmark = pytest.mark.anyio

TOML = """
[agent]
timeout_sec = 90.0
user = "worker"
[verifier]
timeout_sec = 45
[environment]
cpus = 2
memory = "4G"
build_timeout_sec = 300
allow_internet = false
"""


class Bench:
    """Runs a script as the executor of one trial."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.case = root / "case"
        self.case.mkdir()
        (self.case / "task.toml").write_text(TOML)
        self.directory = root / "trials" / "t-1"

    def work(self, **values) -> TrialWork:
        given = {
            "trial": Trial(trial_id="t-1", instance={"instance_id": "t"}),
            "case": Case(name="t", label="cases/t", source="local", dataset="harbor", instance={}, directory=self.case),
            "agent_use": AgentUse(name="claude-code", ref="claude-code"),
            "load_agent": lambda: None,
            "load_dataset": lambda: None,
            "directory": self.directory,
        }
        return TrialWork(**{**given, **values})

    async def run(self, script: str, *, timeout_s: float = 60.0, inherit_env: bool = True, **values):
        work = self.work(**values)
        command = Command(name="harbor", form="script", script=script, timeout_s=timeout_s, origin=self.root / "f.yaml")
        ctx = StepContext(
            scope=Scope.PER_TRIAL,
            run_id="r",
            run_dir=self.root,
            work_dir=self.directory,
            experiment="e",
            subject={"trial_id": "t-1"},
            case=work.case,
            trial_dir=self.directory,
            work=work,
        )
        async with CommandRunner(inherit_env=inherit_env) as runner:
            outcome = await run_command_executor(command, ctx, {}, runner=runner, backoff=lambda _: 0.0)
        assert outcome.rollout is not None
        return outcome.rollout


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


async def test_every_variable_of_the_contract_is_there(bench, monkeypatch):
    async def key() -> str:
        return "sk-canary-1"

    llm = LLM(name="opus", model="m-1", api="anthropic", base_url="http://x", parameters={"effort": "high"})
    rollout = await bench.run(
        'env > "$OUT_DIR/env.txt"; pwd > "$OUT_DIR/pwd.txt"; echo 1 > "$OUT_DIR/reward.txt"',
        llm=llm,
        key=key,
        limits=Limits(agent_s=30, max_turns=7),
        inherit_env=False,
    )
    assert rollout.reward == 1.0
    found = dict(
        line.split("=", 1) for line in (bench.directory / "out/env.txt").read_text().splitlines() if "=" in line
    )
    assert {
        "CASE_DIR": str(bench.case),
        "CASE_NAME": "t",
        "TRIAL_ID": "t-1",
        "OUT_DIR": str(bench.directory / "out"),
        "AGENT_KIND": "agent",
        "AGENT_NAME": "claude-code",
        "AGENT_COMMAND": "",
        "AGENT_USER": "worker",
        "VERIFIER_USER": "",
        "AGENT_TIMEOUT_SEC": "30",
        "VERIFIER_TIMEOUT_SEC": "45",
        "BUILD_TIMEOUT_SEC": "300",
        "CPUS": "2",
        "MEMORY_MB": "4096",
        "STORAGE_MB": "",
        "GPUS": "",
        "ALLOW_INTERNET": "false",
        "LLM_PROVIDER": "anthropic",
        "LLM_BASE_URL": "http://x",
        "LLM_MODEL": "m-1",
        "LLM_API_KEY": "sk-canary-1",
        "LLM_PARAMETERS": '{"effort": "high"}',
        "MAX_TURNS": "7",
        "MAX_TOKENS": "",
    }.items() <= found.items()
    assert Path((bench.directory / "out/pwd.txt").read_text().strip()) == Path.cwd()
    assert found["WORK_DIR"] == str(bench.directory / "attempts/1/work")


async def test_the_key_is_no_argument_and_in_no_log(bench):
    async def key() -> str:
        return "sk-canary-2"

    rollout = await bench.run(
        'tr "\\0" " " < /proc/$$/cmdline; echo "$LLM_API_KEY"; echo 1 > "$OUT_DIR/reward.txt"',
        key=key,
        llm=LLM(name="o", model="m"),
    )
    assert rollout.reward == 1.0
    log = (bench.directory / "attempts/1/executor.log").read_text()
    assert "OUT_DIR" in log
    assert "sk-canary-2" not in log


async def test_a_missing_key_ends_the_trial_before_anything_runs(bench):
    async def key() -> str:
        raise EnvFailed("the variable X is not set", detail="missing_key")

    rollout = await bench.run("touch ran", key=key)
    assert rollout.failure.code is FailureCode.ENV_FAILED
    assert not (bench.directory / "attempts").exists()


async def test_every_attempt_begins_with_an_empty_directory_and_is_kept(bench):
    script = """
        ls -A "$OUT_DIR" > "$WORK_DIR/seen.txt"
        echo x >> "$CASE_DIR/../tries"
        if [ $(wc -l < "$CASE_DIR/../tries") -lt 3 ]; then
          echo 1 > "$OUT_DIR/stale.txt"; echo 0.5 > "$OUT_DIR/reward.json"
          echo HOST_ERROR > "$OUT_DIR/failure.txt"; exit 0; fi
        echo 1 > "$OUT_DIR/reward.txt"
    """
    rollout = await bench.run(script, max_attempts=5, retry_on=frozenset({FailureCode.HOST_ERROR}))
    assert (rollout.reward, rollout.attempts) == (1.0, 3)
    assert [(bench.directory / f"attempts/{n}/work/seen.txt").read_text() for n in (1, 2, 3)] == ["", "", ""]
    assert sorted(os.listdir(bench.directory / "out")) == ["reward.txt"]
    assert sorted(os.listdir(bench.directory / "attempts/1/out")) == ["failure.txt", "reward.json", "stale.txt"]
    assert json.loads((bench.directory / "attempts/2/failure.json").read_text())["code"] == "HOST_ERROR"
    assert [note.split(":")[0] for note in rollout.notes] == ["attempt 1 failed", "attempt 2 failed"]


async def test_what_is_not_to_be_retried_is_not(bench):
    rollout = await bench.run(
        'echo AGENT_FAILED > "$OUT_DIR/failure.txt"', max_attempts=3, retry_on=frozenset({FailureCode.HOST_ERROR})
    )
    assert (rollout.attempts, rollout.ended) == (1, "agent_error")


async def test_one_that_dies_silently_is_the_environment_s(bench):
    rollout = await bench.run("kill -9 $$")
    assert rollout.failure.code is FailureCode.ENV_FAILED
    assert "SIGKILL" in rollout.failure.message


async def test_the_whole_tree_is_killed_at_the_timeout_grandchildren_too(bench):
    script = """
        (setsid sh -c 'echo $$ > "$OUT_DIR/grandchild"; exec sleep 300' &) ; sleep 300
    """
    grandchild = bench.directory / "out/grandchild"
    # On a machine that is busy it takes longer to begin.
    for timeout_s in (1.0, 4.0, 16.0, 64.0):
        started = time.monotonic()
        rollout = await bench.run(script, timeout_s=timeout_s)
        assert time.monotonic() - started < timeout_s + 20
        assert (rollout.failure.code, rollout.failure.detail) == (FailureCode.HOST_ERROR, "command_timeout")
        if grandchild.exists() and grandchild.read_text():
            break
    assert not is_there(int(grandchild.read_text()), bench.directory)


async def test_cancelling_ends_the_command(bench):
    async def watch(scope: anyio.CancelScope) -> None:
        pid = anyio.Path(bench.directory / "out/pid")
        while not (await pid.exists() and await pid.read_text()):  # noqa: ASYNC110
            await anyio.sleep(0.01)
        assert is_there(int(await pid.read_text()), bench.directory)
        scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch, tasks.cancel_scope)
        await bench.run('echo $$ > "$OUT_DIR/pid"; exec sleep 300')
    assert not is_there(int((bench.directory / "out/pid").read_text()), bench.directory)


async def test_trajectory_and_usage_are_brought_back(bench):
    trajectory = {
        "schema_version": "ATIF-v1.6",
        "session_id": "s",
        "agent": {"name": "x", "version": "1"},
        "steps": [
            {"step_id": 1, "source": "user", "message": "do"},
            {
                "step_id": 2,
                "source": "agent",
                "message": "done",
                "metrics": {"prompt_tokens": 10, "completion_tokens": 5},
            },
        ],
    }
    (bench.root / "t.json").write_text(json.dumps(trajectory))
    rollout = await bench.run(f'cp {bench.root}/t.json "$OUT_DIR/trajectory.json"; echo 1 > "$OUT_DIR/reward.txt"')
    assert rollout.trajectory["steps"][1]["message"] == "done"
    assert (rollout.usage.input, rollout.usage.output, rollout.usage.turns) == (10, 5, 1)
    own = await bench.run(
        'echo \'{"input": 3, "cost_usd": 0.5}\' > "$OUT_DIR/usage.json"; '
        'echo {} > "$OUT_DIR/traj.json"; echo 1 > "$OUT_DIR/reward.txt"'
    )
    assert (own.usage.input, own.usage.output, own.usage.cost_usd) == (3, None, 0.5)
    assert "traj.json is no trajectory" in own.notes[0]
