"""A resumed run notices what was edited between two sessions, wherever the user's own code lies."""

from __future__ import annotations

import json
import sys

import pytest

AGENT = """
from agentix.api import AgentResult

async def agent(sandbox, instance, *, model):
    import {helper}
    return AgentResult(patch={helper}.PATCH)
"""

SCRIPTED = """
from pathlib import Path

from pydantic import BaseModel

from agentix.api import AgentResult


class Options(BaseModel):
    script: Path
    more: list[Path] | None = None
    log: Path | None = None


class Agent:
    Config = Options

    def __init__(self, config):
        self.config = config

    async def solve(self, sandbox, instance, *, model):
        if self.config.log is not None:
            with self.config.log.open("a") as file:
                file.write("ran")
        return AgentResult(patch=self.config.script.read_text())
"""


def plugins(agent):
    return ["--dataset", "./toy.py:Dataset", "--agent", agent, "--provider", "./toy.py:Provider"]


@pytest.fixture
def helper(toy, monkeypatch):
    """A module beside the agent, with a name that no other test has imported."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = f"helper_{abs(hash(str(toy.path)))}"
    (toy.path / f"{name}.py").write_text('PATCH = "1"\n')
    (toy.path / "mine.py").write_text(AGENT.format(helper=name))
    (toy.path / f"{name}_agent.py").write_text(AGENT.format(helper=name))
    return name


def test_an_edited_module_beside_the_agent_is_a_changed_agent(toy, helper):
    assert toy.rollout("--id", "r", "--limit", "2", plugins=plugins("./mine.py")).code == 0
    (toy.path / "stranger.py").write_text("# nobody imports it\n")
    assert toy.rollout("--id", "r", "--limit", "2", plugins=plugins("./mine.py")).code == 0
    (toy.path / f"{helper}.py").write_text('PATCH = "0"\n')
    called = toy.rollout("--id", "r", plugins=plugins("./mine.py"))
    assert called.code == 2
    assert "agent sha256" in called.err


def test_an_edited_module_of_the_working_directory_is_a_changed_agent(toy, helper):
    agent = f"{helper}_agent:agent"
    assert toy.rollout("--id", "r", "--limit", "2", plugins=plugins(agent)).code == 0
    with (toy.path / f"{helper}_agent.py").open("a") as file:
        file.write("# edited\n")
    called = toy.rollout("--id", "r", plugins=plugins(agent))
    assert called.code == 2
    assert "agent sha256" in called.err


def test_an_edited_package_is_a_changed_agent(toy, helper):
    package = toy.path / f"{helper}_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "deep.py").write_text(AGENT.format(helper=helper))
    (package / "other.py").write_text("")
    agent = f"{package.name}.deep:agent"
    assert toy.rollout("--id", "r", "--limit", "2", plugins=plugins(agent)).code == 0
    (package / "other.py").write_text("# edited\n")
    assert "agent sha256" in toy.rollout("--id", "r", plugins=plugins(agent)).err


@pytest.mark.parametrize("option", ["script=./work.sh", "more=./work.sh"])
def test_an_edited_file_that_an_option_names_is_a_change(toy, option):
    (toy.path / "scripted.py").write_text(SCRIPTED)
    (toy.path / "work.sh").write_text("1")
    (toy.path / "other.sh").write_text("1")
    given = ["--agent-opt", option]
    if not option.startswith("script"):
        given += ["--agent-opt", "script=./other.sh"]
    same = plugins("./scripted.py:Agent")
    assert toy.rollout("--id", "r", "--limit", "2", *given, plugins=same).code == 0
    assert toy.rollout("--id", "r", "--limit", "2", *given, plugins=same).code == 0
    (toy.path / "work.sh").write_text("0")
    called = toy.rollout("--id", "r", *given, plugins=same)
    assert called.code == 2
    assert f"agent option {option.partition('=')[0]} sha256: " in called.err


def test_a_file_that_the_agent_writes_is_no_change(toy):
    (toy.path / "scripted.py").write_text(SCRIPTED)
    (toy.path / "work.sh").write_text("1")
    given = ["--agent-opt", "script=./work.sh", "--agent-opt", "log=./log"]
    same = plugins("./scripted.py:Agent")
    assert toy.rollout("--id", "r", "--limit", "2", *given, plugins=same).code == 0
    assert (toy.path / "log").exists()
    assert toy.rollout("--id", "r", *given, plugins=same).code == 0


def test_a_set_that_was_scored_again_tells_which_scorer_it_was(toy):
    toy.rollout("--id", "r", "--limit", "1")
    first = json.loads((toy.path / "runs/r/manifest.json").read_text())
    with (toy.path / "toy.py").open("a") as file:
        file.write("# another scorer\n")
    assert toy.agentix("score", "runs/r").code == 0
    again = json.loads((toy.path / "runs/r/rescored/1/manifest.json").read_text())
    assert again["agent"] == first["agent"]
    assert again["dataset"]["sha256"] not in (None, first["dataset"]["sha256"])
