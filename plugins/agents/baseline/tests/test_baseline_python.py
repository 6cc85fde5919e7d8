"""The agents `python` and `oracle`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentix.api import AgentFailed, AgentResult, ConfigError, EnvFailed, Limits, RolloutContext, Trial, load
from agentix.plugins.agents.baseline import OracleAgent, PythonAgent, PythonConfig

pytestmark = pytest.mark.anyio

INSTANCE = {"instance_id": "one"}

SOURCE = """
from agentix.api import AgentResult

async def agent(sandbox, instance, *, model):
    return f"{instance['instance_id']} {model}"

async def with_context(sandbox, instance, *, model, context):
    return AgentResult(patch=context.instruction, exit_code=0)

async def silent(sandbox, instance, *, model):
    return None

async def wrong(sandbox, instance, *, model):
    return 7

class Agent:
    deterministic = True
    version = "3"
    prepared = False

    async def prepare(self, sandbox):
        self.prepared = True

    async def solve(self, sandbox, instance, *, model):
        return f"prepared: {self.prepared}"

class Wrong(Agent):
    async def solve(self, sandbox, instance, *, model):
        return b"bytes"

ready = Agent()
not_an_agent = 5

def takes_other_things(x): ...
"""


class Bare:
    """A dataset without reference answers."""


class Answers:
    async def reference(self, sandbox: Any, instance: dict[str, Any]) -> AgentResult:
        return AgentResult(patch=f"answer to {instance['instance_id']}")


def context(dataset: Any = None) -> RolloutContext:
    return RolloutContext(
        trial=Trial(trial_id="t", instance=INSTANCE), dataset=dataset, instruction="do it", limits=Limits()
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "agent.py"
    path.write_text(SOURCE)
    return path


async def solve(reference: str) -> AgentResult:
    agent = PythonAgent(PythonConfig(path=reference))
    await agent.prepare(None)  # type: ignore[arg-type]
    return await agent.solve(None, dict(INSTANCE), model="m", context=context())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("attribute", "result"),
    [
        ("", AgentResult(patch="one m")),
        (":with_context", AgentResult(patch="do it", exit_code=0)),
        (":silent", AgentResult()),
        (":Agent", AgentResult(patch="prepared: True")),
        (":ready", AgentResult(patch="prepared: True")),
    ],
)
async def test_functions_classes_and_objects_are_agents(file: Path, attribute: str, result: AgentResult) -> None:
    assert await solve(f"{file}{attribute}") == result


@pytest.mark.parametrize("attribute", ["wrong", "Wrong"])
async def test_another_result_is_the_agents_failure(file: Path, attribute: str) -> None:
    with pytest.raises(AgentFailed, match=r"returned (an int|a bytes); an agent returns"):
        await solve(f"{file}:{attribute}")


async def test_what_the_agent_says_of_itself_is_passed_on(file: Path) -> None:
    agent = PythonAgent(PythonConfig(path=f"{file}:Agent"))
    assert (agent.deterministic, agent.version) == (True, "3")


@pytest.mark.parametrize(
    "reference", ["oracle", "no/such.py", "no.such.module:agent", "{file}:absent", "{file}:not_an_agent"]
)
async def test_what_is_no_agent_is_told_with_the_option(file: Path, reference: str) -> None:
    with pytest.raises(Exception, match="--agent-opt path") as caught:
        PythonAgent(PythonConfig(path=reference.format(file=file)))
    assert isinstance(caught.value, ConfigError) or type(caught.value).__name__ == "PluginNotFound"


async def test_the_registry_makes_it_from_options(file: Path) -> None:
    agent = load("agent", "python", {"path": str(file)}, where="--agent")
    assert isinstance(agent, PythonAgent)
    with pytest.raises(ConfigError, match=r"--agent-opt path: .* needs this option"):
        load("agent", "python", {}, where="--agent")


async def test_oracle_plays_the_reference() -> None:
    result = await OracleAgent().solve(None, dict(INSTANCE), model=None, context=context(Answers()))  # type: ignore[arg-type]
    assert result == AgentResult(patch="answer to one")
    assert OracleAgent.deterministic


@pytest.mark.parametrize("known", [context(Bare()), None])
async def test_oracle_says_that_there_is_no_reference(known: RolloutContext | None) -> None:
    with pytest.raises(EnvFailed, match="has no reference answers"):
        await OracleAgent().solve(None, dict(INSTANCE), model=None, context=known)  # type: ignore[arg-type]
