"""What the Harbor CLI is asked, and what it is never asked."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import fake_harbor
import pytest
from fake_harbor import failed, result

from agentix.api import (
    LLM,
    AgentUse,
    Case,
    EnvFailed,
    Limits,
    TimeoutRule,
)
from agentix.plugins.datasets.harbor.executor import HarborStep
from agentix.plugins.datasets.harbor.executor_inputs import HarborInputs
from agentix.testing import StepCase, StepContract

pytestmark = pytest.mark.anyio

anyio_backend, harbor = fake_harbor.anyio_backend, fake_harbor.harbor


async def test_a_machine_without_harbor_says_what_to_install(harbor: Any) -> None:
    rollout = await harbor.run(result({"reward": 1.0}), inputs={"command": ["/nowhere/harbor"]})
    code, message = failed(rollout)
    assert code == "ENV_FAILED"
    assert "uv tool install harbor" in message
    step = HarborStep()
    inputs = HarborInputs(command=("/nowhere/harbor",), environment="elsewhere")
    assert len(list(step.check(inputs))) == 1
    assert list(step.check(HarborInputs(command=(str(harbor.program),), environment="elsewhere"))) == []


def test_a_docker_without_compose_is_told_before_the_run(
    harbor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    inputs = HarborInputs(command=(str(harbor.program),))
    (said,) = HarborStep().check(inputs)
    assert "docker command line" in said
    docker = tmp_path / "bin/docker"
    docker.write_text("#!/bin/sh\nexit 125\n")
    docker.chmod(0o755)
    (said,) = HarborStep().check(inputs)
    assert "docker-compose-plugin" in said
    docker.write_text("#!/bin/sh\n[ $1 = compose ]\n")
    assert list(HarborStep().check(inputs)) == []


@pytest.mark.parametrize(
    ("use", "limits", "said"),
    [
        (AgentUse(name="mine", ref="mine", command="./agent.sh"), None, "agent_mine"),
        (AgentUse(name="mine", ref="./mine.py"), None, "Python file"),
        (AgentUse(name="oracle", ref="oracle"), Limits(max_turns=3, max_cost_usd=1), "max_turns, limits.max_cost_usd"),
    ],
)
async def test_what_harbor_cannot_do_is_refused_before_the_run_and_in_it(
    harbor: Any, use: AgentUse, limits: Limits | None, said: str
) -> None:
    inputs = HarborInputs(command=(str(harbor.program),), environment="elsewhere")
    (told,) = HarborStep().check(inputs, agents=[use], limits=limits)
    assert said in told or all(word in told for word in said.split(", "))
    code, message = failed(await harbor.run(result({"reward": 1}), agent_use=use, limits=limits))
    assert (code, message) == ("ENV_FAILED", told)
    assert not harbor.seen().exists()


LLMS = [
    (LLM(name="a", model="opus", api="anthropic"), "ANTHROPIC_API_KEY", "anthropic/opus"),
    (LLM(name="a", model="gpt-5", api="openai"), "OPENAI_API_KEY", "openai/gpt-5"),
    (LLM(name="a", model="gemini-3", api="google"), "GEMINI_API_KEY", "gemini/gemini-3"),
    (LLM(name="a", model="meta/llama", api="openrouter"), "OPENROUTER_API_KEY", "meta/llama"),
    (LLM(name="a", model="groq/llama"), "GROQ_API_KEY", "groq/llama"),
    (LLM(name="a", model="plain"), "OPENAI_API_KEY", "plain"),
]


@pytest.mark.parametrize(("llm", "variable", "model"), LLMS)
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_key_is_in_the_environment_of_harbor_alone(
    harbor: Any, llm: LLM, variable: str, model: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = "sk-canary-4711"

    async def key() -> str:
        return secret

    monkeypatch.setenv("PYTHONPATH", "/ours")
    files = {"result.json": json.dumps(result(error="RuntimeError"))}
    broken = json.loads(files["result.json"])
    broken["exception_info"]["exception_message"] = f"refused {secret}"
    looked = tmp_path / "looked"
    todo = {"trials": [{"result.json": json.dumps(broken)}], "say": f"using {secret}", "until": str(looked)}
    harbor.script(todo)
    with command_lines(looked, when=str(harbor.program)) as seen:
        rollout = await harbor.run(llm=llm, key=key)
    assert harbor.env[variable] == secret
    assert "PYTHONPATH" not in harbor.env
    assert harbor.value("-m") == model
    assert any(str(harbor.program) in line for line in seen), "the watcher saw nothing"
    assert not [line for line in seen if secret in line]
    assert failed(rollout)[1] == "RuntimeError: refused ***"
    assert (harbor.directory / "attempts/1/harbor.log").read_text() == "using ***\n"
    ours = [path for path in harbor.directory.rglob("*") if path.is_file() and path.name != "result.json"]
    assert not [path for path in ours if secret.encode() in path.read_bytes()]


class command_lines:  # noqa: N801
    """Every command line on this machine while the context is open; a file is made once one holds certain words."""

    def __init__(self, looked: Path, *, when: str) -> None:
        self.looked, self.when = looked, when

    def __enter__(self) -> set[str]:
        self.seen: set[str] = set()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self.seen

    def watch(self) -> None:
        while not self.over.is_set():
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.seen.add(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
                except OSError:
                    continue
            if any(self.when in line for line in self.seen):
                self.looked.touch()

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()


async def test_a_key_that_would_stand_among_the_arguments_is_refused(harbor: Any) -> None:
    async def key() -> str:
        return "sk-canary-4711"

    llm = LLM(name="a", model="m", api="openai", parameters={"api_key": "sk-canary-4711"})
    code, message = failed(await harbor.run(result({"reward": 1}), llm=llm, key=key))
    assert code == "ENV_FAILED"
    assert "sk-canary" not in message
    assert not harbor.seen().exists()


async def test_harbor_starts_where_agentix_was_started(harbor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(harbor.root)
    rollout = await harbor.run(result({"reward": 1}), inputs={"command": ["./harbor"]}, directory=Path("trials/r-1"))
    assert rollout.reward == 1.0
    assert harbor.env["PWD"] == str(harbor.root)
    assert (harbor.root / "trials/r-1/attempts/1/harbor.log").exists()


async def test_a_missing_key_is_found_missing_first(harbor: Any) -> None:
    async def key() -> str:
        raise EnvFailed("the variable K is not set", detail="missing_key", hint="Set it.")

    rollout = await harbor.run(result({"reward": 1}), llm=LLM(name="a", model="m"), key=key)
    assert failed(rollout) == ("ENV_FAILED", "the variable K is not set\n  Set it.")
    assert not harbor.seen().exists()


async def test_addresses_options_and_more_arguments_are_handed_on(harbor: Any) -> None:
    llm = LLM(name="a", model="opus", api="anthropic", base_url="http://127.0.0.1:1", parameters={"effort": "high"})
    use = AgentUse(name="cc", ref="claude-code", options={"max_turns": 3, "version": "2.0"})
    await harbor.run(result({"reward": 1}), llm=llm, agent_use=use, inputs={"args": ["--force-build"]})
    assert (harbor.value("-a"), harbor.env["ANTHROPIC_BASE_URL"]) == ("claude-code", "http://127.0.0.1:1")
    assert [word for at, word in enumerate(harbor.args) if harbor.args[at - 1] == "--ak"] == [
        'effort="high"',
        "max_turns=3",
        'version="2.0"',
    ]
    assert harbor.args[-1] == "--force-build"


AGENT, SCORE, BUILD = (f"--{what}-timeout-multiplier" for what in ("agent", "verifier", "environment-build"))


@pytest.mark.parametrize(
    ("values", "inputs", "flags"),
    [
        ({}, {}, {}),
        ({"limits": Limits(agent_s=60)}, {}, {AGENT: "0.5"}),
        ({"limits": Limits(agent_s=120)}, {}, {}),
        ({}, {"agent_timeout": "1m", "verifier_timeout": 100}, {AGENT: "0.5", SCORE: "2.0"}),
        ({}, {"timeout_multiplier": 3}, {AGENT: "3.0", SCORE: "3.0", BUILD: "3.0"}),
        ({"timeouts": {"agent": TimeoutRule(maximum=30, multiplier=2)}}, {}, {AGENT: "0.5"}),
        ({"timeouts": {"create": TimeoutRule(override=100)}}, {}, {BUILD: "0.5"}),
    ],
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_other_times_are_told_as_multiples(
    harbor: Any, values: dict[str, Any], inputs: dict[str, Any], flags: dict[str, str]
) -> None:
    await harbor.run(result({"reward": 1}), inputs=inputs, **values)
    assert {word: harbor.value(word) for word in harbor.args if word.endswith("-multiplier")} == flags
    assert "-c" not in harbor.args


async def test_times_that_are_no_multiple_are_told_in_a_configuration(harbor: Any) -> None:
    harbor.multi_step()
    llm = LLM(name="a", model="opus", api="anthropic")
    await harbor.run(result({"reward": 1}), limits=Limits(agent_s=60), llm=llm)
    config = json.loads((harbor.seen() / "config.json").read_text())
    assert config == {
        "agents": [{"name": "oracle", "model_name": "anthropic/opus", "override_timeout_sec": 60.0}]
    }  # fmt: skip
    assert "-a" not in harbor.args, "it would take the place of the configured agents"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"timeout": "soon"}, "duration"),
        ({"timeout": ""}, "duration"),
        ({"timeout": True}, "duration"),
        ({"timeout": 0}, "greater than 0"),
        ({"command": []}, "at least 1"),
        ({"args": ["--job-name=x"]}, "--job-name is given by the step itself"),
        ({"args": ["-a"]}, "given by the step itself"),
        ({"agent": "x"}, "Extra inputs"),
    ],
)
def test_a_wrong_input_is_an_error(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        HarborInputs.model_validate(given)


def test_durations_are_those_of_the_file() -> None:
    assert HarborInputs.model_validate({"timeout": "1h30m", "agent_timeout": "90s"}).timeout == 5400


async def test_a_case_that_is_no_task_is_told(harbor: Any) -> None:
    case = Case(name="t", label="hub:t", source="dataset", dataset="swe", instance={})
    assert "hub:t is no task directory" in failed(await harbor.run(result({"reward": 1}), case=case))[1]
    (harbor.case / "task.toml").write_text("[agent\n")
    assert failed(await harbor.run(result({"reward": 1})))[0] == "ENV_FAILED"


class TestContract(StepContract):
    """The step keeps what a step promises."""

    def plugin(self) -> HarborStep:
        return HarborStep()

    def case(self) -> StepCase:
        return StepCase(inputs={})
