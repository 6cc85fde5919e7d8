"""The step `harbor` on a Harbor that answers what it is told to: what it is asked, and what its answer becomes."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentix.api import (
    LLM,
    AgentUse,
    Case,
    EnvFailed,
    Event,
    FailureCode,
    Limits,
    Rollout,
    Scope,
    StepContext,
    TimeoutRule,
    Trial,
    TrialWork,
)
from agentix.plugins.datasets.harbor import executor, executor_process
from agentix.plugins.datasets.harbor.executor import HarborStep
from agentix.plugins.datasets.harbor.executor_inputs import HarborInputs
from agentix.plugins.datasets.harbor.executor_process import project_name
from agentix.testing import StepCase, StepContract

pytestmark = pytest.mark.anyio

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


async def test_one_task_is_one_job_with_one_trial(harbor: Harbor) -> None:
    rollout = await harbor.run(result({"reward": 0.5, "speed": 2.0}))
    assert (rollout.reward, rollout.failure, rollout.ended) == (0.5, None, "completed")
    assert rollout.score is not None
    assert rollout.score["metrics"] == {"reward": 0.5, "speed": 2.0}
    assert (rollout.agent_version, rollout.phases, rollout.attempts) == ("1.2.3", {"agent": 20.0}, 1)
    assert harbor.args[0] == "run"
    assert (harbor.value("-p"), harbor.value("-a"), harbor.value("-e")) == (str(harbor.case), "oracle", "elsewhere")
    assert (harbor.value("-k"), harbor.value("-n"), harbor.value("--max-retries")) == ("1", "1", "0")
    assert {"-q", "-y"} < set(harbor.args)
    assert harbor.value("-m") is None
    assert harbor.value("--job-name") != "t-1", "a job's name is nobody else's"
    assert harbor.env["HARBOR_TELEMETRY"] == "off"
    kept = harbor.directory / "attempts/1"
    assert (kept / "harbor.log").read_text() == "a line of harbor\n"
    assert len(list(kept.glob("harbor/t-1-*/task__0/result.json"))) == 1


@pytest.mark.parametrize(
    ("rewards", "reward", "rule"),
    [
        ({"only": 0.25}, 0.25, "only key only"),
        ({"a": 1, "b": 0}, 0.5, "mean of 2 keys"),
        ({"reward": 1, "a": 0}, 1, "key reward"),
        ({"reward": -2.5}, -2.5, "number"),
    ],
)
async def test_the_reward_is_found_as_for_native_trials(
    harbor: Harbor, rewards: dict[str, float], reward: float, rule: str
) -> None:
    rollout = await harbor.run(result(rewards))
    assert rollout.score is not None
    assert (rollout.reward, rollout.score["reward_rule"]) == (reward, rule)
    assert ("metrics" in rollout.score) == (rule != "number")


async def test_a_number_called_reward_is_a_metric_where_reward_json_says_so(harbor: Harbor) -> None:
    files = {"result.json": json.dumps(result({"reward": 1.0})), "verifier/reward.json": "{}"}
    rollout = await harbor.run({"files": files})
    assert rollout.score is not None
    assert rollout.score["metrics"] == {"reward": 1.0}


async def test_the_datasets_reward_key_chooses(harbor: Harbor) -> None:
    case = Case(
        name="t", label="t", source="local", dataset="harbor", instance={}, directory=harbor.case,
        options={"reward_key": "b"},
    )  # fmt: skip
    assert (await harbor.run(result({"a": 1, "b": 0.5}), case=case)).reward == 0.5
    code, message = failed(await harbor.run(result({"a": 1}), case=case))
    assert (code, "'b'" in message) == ("VERIFIER_ERROR", True)


@pytest.mark.parametrize(
    ("error", "code", "detail"),
    [
        ("AgentTimeoutError", "AGENT_TIMEOUT", None),
        ("NonZeroAgentExitCodeError", "AGENT_FAILED", None),
        ("AgentSafetyRefusalError", "AGENT_FAILED", "refusal"),
        ("ContentPolicyViolationError", "AGENT_FAILED", "refusal"),
        ("ContextWindowExceededError", "AGENT_FAILED", "context_length"),
        ("ContextLengthExceededError", "AGENT_FAILED", "context_length"),
        ("OutputTokenExceededError", "AGENT_FAILED", "output_length"),
        ("OutputLengthExceededError", "AGENT_FAILED", "output_length"),
        ("VerifierTimeoutError", "VERIFIER_ERROR", "score_timeout"),
        ("VerifierOutputParseError", "VERIFIER_ERROR", "no_reward"),
        ("RewardFileNotFoundError", "VERIFIER_ERROR", "no_reward"),
        ("RewardFileEmptyError", "VERIFIER_ERROR", "no_reward"),
        ("RegradeError", "VERIFIER_ERROR", None),
        ("AddTestsDirError", "VERIFIER_ERROR", None),
        ("DownloadVerifierDirError", "VERIFIER_ERROR", None),
        ("ApiError", "HOST_ERROR", "model_api"),
        ("ApiRateLimitError", "HOST_ERROR", "model_api"),
        ("ApiOverloadedError", "HOST_ERROR", "model_api"),
        ("APIConnectionError", "HOST_ERROR", "model_api"),
        ("RateLimitError", "HOST_ERROR", "model_api"),
        ("NetworkConnectionError", "HOST_ERROR", "model_api"),
        ("RuntimeRequestError", "HOST_ERROR", "model_api"),
        ("SandboxLikelyOutOfMemoryError", "HOST_ERROR", "oom"),
        ("ApiProviderResourceNotFoundError", "ENV_FAILED", "model_api"),
        ("ModelNotFoundError", "ENV_FAILED", "model_api"),
        ("AgentAuthenticationError", "ENV_FAILED", "missing_key"),
        ("AgentSetupTimeoutError", "ENV_FAILED", "agent_setup"),
        ("EnvironmentStartTimeoutError", "ENV_FAILED", "build_timeout"),
        ("HealthcheckError", "ENV_FAILED", "healthcheck"),
        ("RuntimeError", "ENV_FAILED", None),
        ("CancelledError", "ENV_FAILED", None),
        ("NobodyKnowsError", "ENV_FAILED", None),
    ],
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_an_exception_is_one_of_our_codes(harbor: Harbor, error: str, code: str, detail: str | None) -> None:
    rollout = await harbor.run(result(error=error))
    assert failed(rollout) == (code, f"{error}: it broke")
    assert rollout.failure is not None
    assert rollout.failure.detail == detail
    assert rollout.failure.code.is_agents == (rollout.failure.boundary == "agent")
    assert json.loads((harbor.directory / "attempts/1/failure.json").read_text())["code"] == code


async def test_what_the_tests_wrote_is_theirs_also_where_harbor_finds_out(harbor: Harbor) -> None:
    broken = result()
    broken["exception_info"] = exception("ValidationError", "1 validation error for VerifierResult\nrewards")
    assert failed(await harbor.run(broken))[0] == "VERIFIER_ERROR"


async def test_an_agents_failure_keeps_the_reward_and_any_other_does_not(harbor: Harbor) -> None:
    rollout = await harbor.run(result({"reward": 1.0}, "AgentTimeoutError"))
    assert (rollout.reward, rollout.failure, rollout.ended) == (1.0, None, "timeout")
    assert rollout.notes == ("agent: AgentTimeoutError: it broke",)
    rollout = await harbor.run(result({"reward": 0.0}, "NonZeroAgentExitCodeError"))
    assert (rollout.reward, rollout.ended) == (0.0, "agent_error")
    code, message = failed(await harbor.run(result({"reward": 0.0}, "ApiOverloadedError")))
    assert code == "HOST_ERROR"
    assert "{'reward': 0.0}" in message


async def test_a_solution_that_failed_is_an_agents_error(harbor: Harbor) -> None:
    files = {"result.json": json.dumps(result({"reward": 0.5})), "agent/exit-code.txt": "7"}
    rollout = await harbor.run({"files": files})
    assert (rollout.reward, rollout.agent_exit, rollout.ended) == (0.5, 7, "agent_error")


async def test_a_failure_of_one_step_is_one_of_the_trial_and_the_worst_is_told(harbor: Harbor) -> None:
    harbor.multi_step()
    steps = [
        {"step_name": "one", "exception_info": exception("AgentTimeoutError")},
        {"step_name": "two", "exception_info": exception("VerifierTimeoutError", "slow")},
    ]
    rollout = await harbor.run(result({"reward": 0.5}, step_results=steps))
    assert failed(rollout)[0] == "VERIFIER_ERROR"
    assert rollout.info["harbor"]["exceptions"] == ["AgentTimeoutError", "VerifierTimeoutError"]


@pytest.mark.parametrize("rewards", [None, {}, {"reward": None}, {"reward": "1"}, {"reward": True}, {"reward": [1]}])
async def test_no_usable_reward_is_the_verifiers_error(harbor: Harbor, rewards: Any) -> None:
    assert failed(await harbor.run(result(rewards)))[0] == "VERIFIER_ERROR"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ('{"exception_info": nul', "not JSON"),
        ('{"exception_info": null, "verifier_result": {"rewards": {"reward": NaN}}}', "NaN is no number"),
        ('{"exception_info": null, "exception_info": null, "verifier_result": null}', "a key occurs twice"),
        ("[]", "no object"),
        ('{"verifier_result": {"rewards": {"reward": 1}}}', "no exception_info"),
        ('{"exception_info": "RuntimeError", "verifier_result": null}', "exception_info"),
        ('{"exception_info": {"exception_type": 3}, "verifier_result": null}', "exception_info.exception_type"),
        ('{"exception_info": null, "verifier_result": {"rewards": [1]}}', "verifier_result.rewards"),
        ('{"exception_info": null, "verifier_result": null, "agent_result": {"n_input_tokens": -1}}', "n_input_tokens"),
        ('{"exception_info": null, "verifier_result": null, "agent_result": {"cost_usd": true}}', "cost_usd"),
        ("[" * 100_000, "not JSON"),
        ("-> /dev/zero", "no result"),
        ("-> ../../../../harbor.log", "cannot be read"),
    ],
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_damaged_result_is_no_reward_and_not_the_agents_failure(harbor: Harbor, text: str, said: str) -> None:
    code, message = failed(await harbor.run({"files": {"result.json": text}}))
    assert code == "ENV_FAILED"
    assert said in message or "without a result" in message


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ({"trials": [], "status": 3}, "ended with exit status 3 without a result: a line of harbor"),
        ({"trials": []}, "ended with exit status 0 without a result"),
        (
            {"trials": [], "status": 1, "say": "│ 7 raise ValueError(\n╰────╯\nValueError: no such agent\n"},
            "without a result: ValueError: no such agent",
        ),
        ({"trials": [], "kill": 9}, "was ended by SIGKILL without a result"),
        ({"trials": [{"result.json": json.dumps(result())}], "kill": 9}, "before the trial had a reward"),
        ({"trials": [{"result.json": json.dumps({**result(), "finished_at": None})}]}, "before the trial had a reward"),
        ({"trials": [{"result.json": json.dumps(result({"reward": 1}))}] * 2}, "there are 2 results"),
    ],
)
async def test_a_harbor_that_dies_silently_is_not_the_agents_failure(
    harbor: Harbor, run: dict[str, Any], said: str
) -> None:
    harbor.script(run)
    code, message = failed(await harbor.run())
    assert code == "ENV_FAILED"
    assert said in message


async def test_an_exit_status_is_no_result_and_takes_none_away(harbor: Harbor) -> None:
    harbor.script({"trials": [{"result.json": json.dumps(result({"reward": 1.0}))}], "status": 1})
    rollout = await harbor.run()
    assert rollout.reward == 1.0
    assert rollout.notes == ("Harbor ended with exit status 1 after the trial was measured",)


async def test_a_machine_without_harbor_says_what_to_install(harbor: Harbor) -> None:
    rollout = await harbor.run(result({"reward": 1.0}), inputs={"command": ["/nowhere/harbor"]})
    code, message = failed(rollout)
    assert code == "ENV_FAILED"
    assert "uv tool install harbor" in message
    step = HarborStep()
    inputs = HarborInputs(command=("/nowhere/harbor",), environment="elsewhere")
    assert len(list(step.check(inputs))) == 1
    assert list(step.check(HarborInputs(command=(str(harbor.program),), environment="elsewhere"))) == []


def test_a_docker_without_compose_is_told_before_the_run(
    harbor: Harbor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    harbor: Harbor, use: AgentUse, limits: Limits | None, said: str
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
    harbor: Harbor, llm: LLM, variable: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-canary-4711"

    async def key() -> str:
        return secret

    monkeypatch.setenv("PYTHONPATH", "/ours")
    files = {"result.json": json.dumps(result(error="RuntimeError"))}
    broken = json.loads(files["result.json"])
    broken["exception_info"]["exception_message"] = f"refused {secret}"
    harbor.script({"trials": [{"result.json": json.dumps(broken)}], "say": f"using {secret}"})
    with command_lines() as seen:
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
    """Every command line on this machine while the context is open."""

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

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()


async def test_a_key_that_would_stand_among_the_arguments_is_refused(harbor: Harbor) -> None:
    async def key() -> str:
        return "sk-canary-4711"

    llm = LLM(name="a", model="m", api="openai", parameters={"api_key": "sk-canary-4711"})
    code, message = failed(await harbor.run(result({"reward": 1}), llm=llm, key=key))
    assert code == "ENV_FAILED"
    assert "sk-canary" not in message
    assert not harbor.seen().exists()


async def test_a_missing_key_is_found_missing_first(harbor: Harbor) -> None:
    async def key() -> str:
        raise EnvFailed("the variable K is not set", detail="missing_key", hint="Set it.")

    rollout = await harbor.run(result({"reward": 1}), llm=LLM(name="a", model="m"), key=key)
    assert failed(rollout) == ("ENV_FAILED", "the variable K is not set; Set it.")
    assert not harbor.seen().exists()


async def test_addresses_options_and_more_arguments_are_handed_on(harbor: Harbor) -> None:
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
    harbor: Harbor, values: dict[str, Any], inputs: dict[str, Any], flags: dict[str, str]
) -> None:
    await harbor.run(result({"reward": 1}), inputs=inputs, **values)
    assert {word: harbor.value(word) for word in harbor.args if word.endswith("-multiplier")} == flags
    assert "-c" not in harbor.args


async def test_times_that_are_no_multiple_are_told_in_a_configuration(harbor: Harbor) -> None:
    harbor.multi_step()
    llm = LLM(name="a", model="opus", api="anthropic")
    await harbor.run(result({"reward": 1}), limits=Limits(agent_s=60), llm=llm)
    config = json.loads((harbor.seen() / "config.json").read_text())
    assert config == {
        "agents": [{"name": "oracle", "model_name": "anthropic/opus", "override_timeout_sec": 60.0}]
    }  # fmt: skip
    assert "-a" not in harbor.args, "it would take the place of the configured agents"


USED = {"n_input_tokens": 100, "n_cache_tokens": 30, "n_output_tokens": 7, "cost_usd": 0.5}


async def test_trajectory_and_usage_are_brought_back(harbor: Harbor) -> None:
    text = trajectory(10, 20)
    files = {"result.json": json.dumps(result({"reward": 1}, agent_result=USED)), "agent/trajectory.json": text}
    rollout = await harbor.run({"files": files})
    assert rollout.trajectory == json.loads(text)
    usage = rollout.usage
    assert usage is not None
    assert (usage.input, usage.cache_read, usage.output, usage.cost_usd) == (70, 30, 7, 0.5)
    assert (usage.turns, usage.tool_calls) == (2, 2)


async def test_without_harbors_own_numbers_the_trajectory_tells_what_was_spent(harbor: Harbor) -> None:
    nothing = dict.fromkeys(USED)
    files = {
        "result.json": json.dumps(result({"reward": 1}, agent_result=nothing)),
        "agent/trajectory.json": trajectory(10, 20),
    }
    usage = (await harbor.run({"files": files})).usage
    assert usage is not None
    assert (usage.input, usage.cache_read, usage.output, usage.cost_usd) == (28, 2, 4, None)
    assert (await harbor.run(result({"reward": 1}, agent_result=nothing))).usage is None


async def test_the_trajectories_of_steps_become_one(harbor: Harbor) -> None:
    harbor.multi_step()
    steps = [{"step_name": name, "agent_result": USED} for name in ("one", "two")]
    totals = {"total_prompt_tokens": 30, "total_cost_usd": 0.25}
    files = {
        "result.json": json.dumps(result({"reward": 1}, step_results=steps)),
        "steps/one/agent/trajectory.json": trajectory(10, 20, final_metrics=totals),
        "steps/two/agent/trajectory.json": trajectory(5, final_metrics={**totals, "total_cost_usd": None}),
    }
    rollout = await harbor.run({"files": files})
    assert rollout.trajectory is not None
    assert [step["step_id"] for step in rollout.trajectory["steps"]] == [1, 2, 3, 4, 5]
    assert rollout.trajectory["final_metrics"] == {"total_prompt_tokens": 60, "total_steps": 5}
    assert rollout.usage is not None
    assert (rollout.usage.input, rollout.usage.cost_usd, rollout.usage.turns) == (140, 1.0, 3)
    assert rollout.score is not None
    assert (rollout.score["strategy"], "metrics" in rollout.score) == ("mean", False)


@pytest.mark.parametrize(
    "text", ["not json", '{"steps": []}', "-> /etc/hostname", trajectory(1).replace(": 2,", ": 5,")]
)
async def test_a_trajectory_that_is_none_takes_nothing_away(harbor: Harbor, text: str) -> None:
    files = {"result.json": json.dumps(result({"reward": 1})), "agent/trajectory.json": text}
    rollout = await harbor.run({"files": files})
    assert (rollout.reward, rollout.trajectory) == (1.0, None)
    assert bool(rollout.notes) == (not text.startswith("->"))


async def test_attempts_are_kept_and_the_last_one_counts(harbor: Harbor) -> None:
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


async def test_an_agents_failure_and_a_last_attempt_are_final(harbor: Harbor) -> None:
    harbor.script({"trials": [{"result.json": json.dumps(result(error="AgentTimeoutError"))}]})
    codes = frozenset({FailureCode.HOST_ERROR})
    assert (await harbor.run(max_attempts=3, retry_on=codes)).attempts == 1
    harbor.script({"trials": [{"result.json": json.dumps(result(error="ApiError"))}]})
    rollout = await harbor.run(max_attempts=2, retry_on=codes)
    assert (failed(rollout)[0], rollout.attempts) == ("HOST_ERROR", 2)


@pytest.mark.parametrize("wait", ["polite", "stubborn"])
async def test_at_the_time_limit_everything_that_was_started_is_ended(
    harbor: Harbor, wait: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_process, "GRACE_S", 0.5)
    mark = f"grandchild-{time.monotonic_ns()}"
    harbor.script({"trials": [], "wait": wait, "spawn": mark})
    rollout = await harbor.run(inputs={"timeout": 3})
    code, message = failed(rollout)
    assert code == "HOST_ERROR"
    assert "was stopped at its time limit" in message
    assert rollout.failure is not None
    assert rollout.failure.detail == "command_timeout"
    assert (harbor.seen() / "asked").exists(), "it was not asked to end first"
    assert alive(mark) == []


async def test_a_reward_that_was_there_at_the_time_limit_counts(
    harbor: Harbor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_process, "GRACE_S", 0.5)
    harbor.script({"trials": [{"result.json": json.dumps(result({"reward": 1.0}))}], "wait": "polite"})
    rollout = await harbor.run(inputs={"timeout": 3})
    assert rollout.reward == 1.0
    assert rollout.notes == ("Harbor was stopped at its time limit after the trial was measured",)


async def test_a_cancelled_trial_ends_with_everything_that_it_started(harbor: Harbor) -> None:
    mark = f"grandchild-{time.monotonic_ns()}"
    harbor.script({"trials": [], "wait": "polite", "spawn": mark})
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(harbor.run)
            while not (harbor.seen() / "started").exists():  # noqa: ASYNC110  # another process says so
                await anyio.sleep(0.01)
            assert len(alive(mark)) == 1
            scope.cancel()
    assert scope.cancelled_caught
    assert (harbor.seen() / "asked").exists()
    assert alive(mark) == []


async def test_what_harbor_leaves_running_ends_with_it(harbor: Harbor) -> None:
    mark = f"grandchild-{time.monotonic_ns()}"
    harbor.script({"trials": [{"result.json": json.dumps(result({"reward": 1.0}))}], "spawn": mark})
    assert (await harbor.run()).reward == 1.0
    assert alive(mark) == []


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


async def test_containers_that_are_left_are_removed_or_told(harbor: Harbor, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_a_case_that_is_no_task_is_told(harbor: Harbor) -> None:
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
