"""A small dataset, agent and provider in a file, as a user would write them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentix.cli.app import main

TOY = """
import subprocess
from pathlib import Path

import anyio
from pydantic import BaseModel

from agentix.api import AgentResult, EnvFailed, Usage, VerifierError
from agentix.sandbox.host_process import HostProcessProvider


class Provider(HostProcessProvider):
    name = "toy"


class Tasks(BaseModel):
    n: int = 4
    twins: bool = False
    broken: str = ""
    content: str = "1"
    state: bool = False
    raises: str = ""


class Dataset:
    Config = Tasks

    def __init__(self, config):
        self.config = config
        self.answer = "state" if config.state else "patch"

    def instances(self):
        for number in range(self.config.n):
            yield {"instance_id": f"task-{number}"}
        if self.config.twins:
            yield {"instance_id": "task-1"}
        if self.config.raises == "instances":
            raise OSError("the index is offline")

    def content_hash(self, instance):
        if self.config.raises == "content_hash":
            raise OSError("the task is offline")
        return self.config.content * 64

    def image(self, instance):
        return ""

    async def setup(self, sandbox, instance):
        if self.config.broken in (instance["instance_id"], "all"):
            raise EnvFailed("the setup is broken")
        return True

    async def score(self, sandbox, instance, patch):
        if patch == "unscorable":
            raise VerifierError("no reward")
        return {"reward": float(patch)}


class Work(BaseModel):
    patch: str = "1"
    by: dict[str, str] = {}
    cost: float | None = None
    hang: bool = False
    noisy: bool = False
    fail: str = ""
    counter: str = "count"


class Agent:
    Config = Work

    def __init__(self, config):
        self.config = config

    async def solve(self, sandbox, instance, *, model):
        name = instance["instance_id"]
        with Path(self.config.counter).open("a") as file:
            file.write(name + "\\n")
        if self.config.noisy:
            subprocess.run("echo noise; echo noise >&2; cat", shell=True)
        if self.config.hang:
            await anyio.sleep_forever()
        if self.config.fail in (name, "all"):
            raise OSError("the agent fell over")
        usage = None if self.config.cost is None else Usage(cost_usd=self.config.cost, output=10)
        return AgentResult(patch=self.config.by.get(name, self.config.patch), usage=usage)


class Once(Agent):
    deterministic = True
"""

PLUGINS = ["--dataset", "./toy.py:Dataset", "--agent", "./toy.py:Agent", "--provider", "./toy.py:Provider"]


@dataclass
class Called:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@dataclass
class Toy:
    """A directory with the toy plugins, which is the working directory."""

    path: Path
    capture: Callable[[], tuple[str, str]]

    def rollout(self, *arguments: str, plugins: list[str] = PLUGINS) -> Called:
        code = main("agentix-run", [*plugins, *arguments])
        return Called(code, *self.capture())

    def agentix(self, *arguments: str) -> Called:
        code = main("agentix", arguments)
        return Called(code, *self.capture())

    def start(self, *arguments: str, **options) -> subprocess.Popen:
        """The same as `rollout`, in a process of its own."""
        command = [sys.executable, "-c", "import sys, agentix_console as c; sys.exit(c.agentix_run())"]
        given = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": self.path}
        return subprocess.Popen([*command, *PLUGINS, *arguments], **{**given, **options})

    def ran(self) -> list[str]:
        """The instances that the agent was asked to solve, in order."""
        counter = self.path / "count"
        return counter.read_text().split() if counter.exists() else []

    def lines(self, run_id: str) -> list[dict]:
        return [json.loads(line) for line in (self.path / "runs" / run_id / "results.jsonl").read_text().splitlines()]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in [name for name in os.environ if name.startswith("AGENTIX_") and name != "AGENTIX_CACHE_DIR"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def toy(tmp_path, monkeypatch, capsys) -> Toy:
    (tmp_path / "toy.py").write_text(TOY)
    monkeypatch.chdir(tmp_path)

    def capture() -> tuple[str, str]:
        captured = capsys.readouterr()
        return captured.out, captured.err

    return Toy(tmp_path, capture)
