"""What an answer of the Harbor CLI becomes."""

from __future__ import annotations

import json
from typing import Any

import fake_harbor
import pytest
from fake_harbor import exception, failed, result, trajectory

from agentix.api import (
    Case,
)

pytestmark = pytest.mark.anyio

anyio_backend, harbor = fake_harbor.anyio_backend, fake_harbor.harbor


async def test_one_task_is_one_job_with_one_trial(harbor: Any) -> None:
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
    harbor: Any, rewards: dict[str, float], reward: float, rule: str
) -> None:
    rollout = await harbor.run(result(rewards))
    assert rollout.score is not None
    assert (rollout.reward, rollout.score["reward_rule"]) == (reward, rule)
    assert ("metrics" in rollout.score) == (rule != "number")


async def test_a_number_called_reward_is_a_metric_where_reward_json_says_so(harbor: Any) -> None:
    files = {"result.json": json.dumps(result({"reward": 1.0})), "verifier/reward.json": "{}"}
    rollout = await harbor.run({"files": files})
    assert rollout.score is not None
    assert rollout.score["metrics"] == {"reward": 1.0}


async def test_the_datasets_reward_key_chooses(harbor: Any) -> None:
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
async def test_an_exception_is_one_of_our_codes(harbor: Any, error: str, code: str, detail: str | None) -> None:
    rollout = await harbor.run(result(error=error))
    assert failed(rollout) == (code, f"{error}: it broke")
    assert rollout.failure is not None
    assert rollout.failure.detail == detail
    assert rollout.failure.code.is_agents == (rollout.failure.boundary == "agent")
    assert json.loads((harbor.directory / "attempts/1/failure.json").read_text())["code"] == code


async def test_what_the_tests_wrote_is_theirs_also_where_harbor_finds_out(harbor: Any) -> None:
    broken = result()
    broken["exception_info"] = exception("ValidationError", "1 validation error for VerifierResult\nrewards")
    assert failed(await harbor.run(broken))[0] == "VERIFIER_ERROR"


async def test_an_agents_failure_keeps_the_reward_and_any_other_does_not(harbor: Any) -> None:
    rollout = await harbor.run(result({"reward": 1.0}, "AgentTimeoutError"))
    assert (rollout.reward, rollout.failure, rollout.ended) == (1.0, None, "timeout")
    assert rollout.notes == ("agent: AgentTimeoutError: it broke",)
    rollout = await harbor.run(result({"reward": 0.0}, "NonZeroAgentExitCodeError"))
    assert (rollout.reward, rollout.ended) == (0.0, "agent_error")
    code, message = failed(await harbor.run(result({"reward": 0.0}, "ApiOverloadedError")))
    assert code == "HOST_ERROR"
    assert "{'reward': 0.0}" in message


async def test_a_solution_that_failed_is_an_agents_error(harbor: Any) -> None:
    files = {"result.json": json.dumps(result({"reward": 0.5})), "agent/exit-code.txt": "7"}
    rollout = await harbor.run({"files": files})
    assert (rollout.reward, rollout.agent_exit, rollout.ended) == (0.5, 7, "agent_error")


async def test_a_failure_of_one_step_is_one_of_the_trial_and_the_worst_is_told(harbor: Any) -> None:
    harbor.multi_step()
    steps = [
        {"step_name": "one", "exception_info": exception("AgentTimeoutError")},
        {"step_name": "two", "exception_info": exception("VerifierTimeoutError", "slow")},
    ]
    rollout = await harbor.run(result({"reward": 0.5}, step_results=steps))
    assert failed(rollout)[0] == "VERIFIER_ERROR"
    assert rollout.info["harbor"]["exceptions"] == ["AgentTimeoutError", "VerifierTimeoutError"]


@pytest.mark.parametrize("rewards", [None, {}, {"reward": None}, {"reward": "1"}, {"reward": True}, {"reward": [1]}])
async def test_no_usable_reward_is_the_verifiers_error(harbor: Any, rewards: Any) -> None:
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
async def test_a_damaged_result_is_no_reward_and_not_the_agents_failure(harbor: Any, text: str, said: str) -> None:
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
    harbor: Any, run: dict[str, Any], said: str
) -> None:
    harbor.script(run)
    code, message = failed(await harbor.run())
    assert code == "ENV_FAILED"
    assert said in message


async def test_an_exit_status_is_no_result_and_takes_none_away(harbor: Any) -> None:
    harbor.script({"trials": [{"result.json": json.dumps(result({"reward": 1.0}))}], "status": 1})
    rollout = await harbor.run()
    assert rollout.reward == 1.0
    assert rollout.notes == ("Harbor ended with exit status 1 after the trial was measured",)


USED = {"n_input_tokens": 100, "n_cache_tokens": 30, "n_output_tokens": 7, "cost_usd": 0.5}


async def test_trajectory_and_usage_are_brought_back(harbor: Any) -> None:
    text = trajectory(10, 20)
    files = {"result.json": json.dumps(result({"reward": 1}, agent_result=USED)), "agent/trajectory.json": text}
    rollout = await harbor.run({"files": files})
    assert rollout.trajectory == json.loads(text)
    usage = rollout.usage
    assert usage is not None
    assert (usage.input, usage.cache_read, usage.output, usage.cost_usd) == (70, 30, 7, 0.5)
    assert (usage.turns, usage.tool_calls) == (2, 2)


async def test_without_harbors_own_numbers_the_trajectory_tells_what_was_spent(harbor: Any) -> None:
    nothing = dict.fromkeys(USED)
    files = {
        "result.json": json.dumps(result({"reward": 1}, agent_result=nothing)),
        "agent/trajectory.json": trajectory(10, 20),
    }
    usage = (await harbor.run({"files": files})).usage
    assert usage is not None
    assert (usage.input, usage.cache_read, usage.output, usage.cost_usd) == (28, 2, 4, None)
    assert (await harbor.run(result({"reward": 1}, agent_result=nothing))).usage is None


async def test_the_trajectories_of_steps_become_one(harbor: Any) -> None:
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
async def test_a_trajectory_that_is_none_takes_nothing_away(harbor: Any, text: str) -> None:
    files = {"result.json": json.dumps(result({"reward": 1})), "agent/trajectory.json": text}
    rollout = await harbor.run({"files": files})
    assert (rollout.reward, rollout.trajectory) == (1.0, None)
    assert bool(rollout.notes) == (not text.startswith("->"))
