"""A Harbor CLI that answers what it is told to, and the step `harbor` on it.

It is found because the pytest settings put this folder on the path of modules.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agentix.api import (
    AgentUse,
    Case,
    Event,
    Rollout,
    Scope,
    StepContext,
    Trial,
    TrialWork,
)
from agentix.plugins.datasets.harbor import executor
from agentix.plugins.datasets.harbor.executor import HarborStep
from agentix.plugins.datasets.harbor.executor_inputs import HarborInputs

FAKE = f"""#!{sys.executable}
import json, os, pathlib, signal, subprocess, sys, time
args = sys.argv[1:]
value = lambda flag: args[args.index(flag) + 1]
here = pathlib.Path(os.environ["FAKE"])
runs = [int(path.name[4:]) for path in here.glob("run-*")]
run = here / f"run-{{max(runs, default=0) + 1}}"
run.mkdir()
(run / "args.json").write_text(json.dumps(args))
(run / "env.json").write_text(json.dumps(dict(os.environ)))
if "-c" in args:
    (run / "config.json").write_text(pathlib.Path(value("-c")).read_text())
script = json.loads((here / "script.json").read_text())
todo = script[min(int(run.name[4:]), len(script)) - 1]
print(todo.get("say", "a line of harbor"), flush=True)
job = pathlib.Path(value("-o")) / value("--job-name")
for number, files in enumerate(todo["trials"]):
    trial = job / f"task__{{number}}"
    for name, text in files.items():
        path = trial / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            path.symlink_to(text[3:])
        else:
            path.write_text(text)
if "spawn" in todo:
    sleeper = "import sys, time; time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", sleeper, todo["spawn"]], start_new_session=True)
if "until" in todo:
    while not pathlib.Path(todo["until"]).exists():
        time.sleep(0.005)
if "wait" in todo:
    def asked(*_):
        (run / "asked").write_text("")
        if todo["wait"] == "stubborn":
            return
        sys.exit(143)
    signal.signal(signal.SIGTERM, asked)
    (run / "started").write_text("")
    while True:
        time.sleep(0.05)
if "kill" in todo:
    os.kill(os.getpid(), todo["kill"])
sys.exit(todo.get("status", 0))
"""

TOML = """
[agent]
timeout_sec = 120.0
[verifier]
timeout_sec = 50.0
[environment]
build_timeout_sec = 200.0
"""
STEPS = """
[[steps]]
name = "one"
[steps.agent]
timeout_sec = 10
[[steps]]
name = "two"
"""


def result(rewards: Any = None, error: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "verifier_result": None if rewards is None else {"rewards": rewards},
        "exception_info": None if error is None else exception(error),
        "started_at": "2026-01-01T10:00:00.5Z",
        "finished_at": "2026-01-01T10:01:00Z",
        "agent_info": {"name": "oracle", "version": "1.2.3", "model_info": None},
        "agent_execution": {"started_at": "2026-01-01T10:00:10Z", "finished_at": "2026-01-01T10:00:30Z"},
        **more,
    }


def exception(name: str, message: str = "it broke") -> dict[str, Any]:
    return {"exception_type": name, "exception_message": message, "exception_traceback": "", "occurred_at": "2026"}


def steps_of(*tokens: int) -> list[dict[str, Any]]:
    call = {"tool_call_id": "c", "function_name": "bash", "arguments": {}}
    metrics = [{"prompt_tokens": n, "completion_tokens": 2, "cached_tokens": 1} for n in tokens]
    said = [
        {"step_id": n, "source": "agent", "message": "m", "tool_calls": [call], "metrics": one}
        for n, one in enumerate(metrics, 2)
    ]
    return [{"step_id": 1, "source": "user", "message": "do it"}, *said]


def trajectory(*tokens: int, **more: Any) -> str:
    agent = {"name": "claude-code", "version": "1", "model_name": "m"}
    return json.dumps(
        {"schema_version": "ATIF-v1.6", "session_id": "s", "agent": agent, "steps": steps_of(*tokens), **more}
    )


class Harbor:
    """The step with a Harbor that does what it is told."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.fake = root / "fake"
        self.fake.mkdir()
        self.program = root / "harbor"
        self.program.write_text(FAKE)
        self.program.chmod(0o755)
        self.case = root / "case"
        for part in ("tests", "environment"):
            (self.case / part).mkdir(parents=True)
        (self.case / "instruction.md").write_text("do it\n")
        (self.case / "tests/test.sh").write_text("#!/bin/sh\n")
        (self.case / "task.toml").write_text(TOML)
        self.directory = root / "trials" / "t-1"
        self.events: list[Event] = []

    def multi_step(self) -> None:
        (self.case / "task.toml").write_text(TOML + STEPS)
        for name in ("one", "two"):
            (self.case / "steps" / name).mkdir(parents=True)
            (self.case / "steps" / name / "instruction.md").write_text("do it\n")

    def script(self, *runs: dict[str, Any]) -> None:
        (self.fake / "script.json").write_text(json.dumps(runs))

    async def run(self, *trials: Any, inputs: dict[str, Any] | None = None, **values: Any) -> Rollout:
        """One trial; what it finds is given as `result.json`, or as files."""
        if trials:
            files = [one if "files" in one else {"files": {"result.json": json.dumps(one)}} for one in trials]
            self.script({"trials": [one["files"] for one in files]})
        given: dict[str, Any] = {
            "trial": Trial(trial_id="t-1", instance={"instance_id": "t"}),
            "case": Case(name="t", label="cases/t", source="local", dataset="harbor", instance={}, directory=self.case),
            "agent_use": AgentUse(name="oracle", ref="oracle"),
            "load_agent": lambda: None,
            "load_dataset": lambda: None,
            "directory": self.directory,
            "on_event": self.events.append,
        }
        work = TrialWork(**{**given, **values})
        ctx = StepContext(
            scope=Scope.PER_TRIAL, run_id="r", run_dir=self.root, work_dir=self.directory, case=work.case, work=work
        )
        told = {"command": [str(self.program)], "environment": "elsewhere", **(inputs or {})}
        outcome = await HarborStep().run(ctx, HarborInputs.model_validate(told))
        assert outcome.rollout is not None
        return outcome.rollout

    def seen(self, run: int = 1) -> Path:
        return self.fake / f"run-{run}"

    @property
    def args(self) -> list[str]:
        return [str(word) for word in json.loads((self.seen() / "args.json").read_text())]

    @property
    def env(self) -> dict[str, str]:
        return dict(json.loads((self.seen() / "env.json").read_text()))

    def value(self, flag: str) -> str | None:
        return self.args[self.args.index(flag) + 1] if flag in self.args else None


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def harbor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Harbor:
    made = Harbor(tmp_path)
    monkeypatch.setenv("FAKE", str(made.fake))
    monkeypatch.setattr(executor, "_LONGEST_PAUSE_S", 0.0)
    return made


def failed(rollout: Rollout) -> tuple[str, str]:
    assert rollout.failure is not None
    assert rollout.reward is None
    return rollout.failure.code.value, rollout.failure.message


def alive(mark: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if mark.encode() in line and path.parent.name != str(os.getpid()):
            found.append(path.parent.name)
    return found
