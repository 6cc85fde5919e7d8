"""Every failure is attributed once: its code, its detail, the part of the trial and the plugin."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from agentix.errors import (
    AgentFailed,
    AgentTimeout,
    EnvFailed,
    HostError,
    LimitReached,
    SandboxGone,
    Unsupported,
    VerifierError,
)
from agentix.models import AgentResult, FailureCode, Limits, Rollout, TimeoutRule, Usage
from agentix.runner import run_rollouts
from agentix.testing.fakes import FakeAgent, FakeDataset, FakeProvider
from agentix.testing.scripts import Action, die, fail, hang

pytestmark = pytest.mark.anyio

SHORT = Limits(agent_s=1)
"""Long enough for an agent that does not wait to come to its end on a busy machine."""


async def one(
    provider: FakeProvider | None = None,
    *,
    setup: Action | None = None,
    score: Action | None = None,
    prepare: Action | None = None,
    solve: Action | None = None,
    patch: str | None = None,
    limits: Limits | None = None,
    dataset: FakeDataset | None = None,
    **options: Any,
) -> Rollout:
    provider = provider or FakeProvider()
    stages = {"setup": setup, "score": score}
    dataset = dataset or FakeDataset(1, on={k: v for k, v in stages.items() if v is not None})
    agent_stages = {"prepare": prepare, "solve": solve}
    agent = FakeAgent(patch, on={k: v for k, v in agent_stages.items() if v is not None})
    (rollout,) = await run_rollouts(dataset=dataset, agent=agent, provider=provider, limits=limits, **options)
    assert not provider.live or rollout.unreleased
    return rollout


def told(rollout: Rollout) -> tuple[str, str | None, str]:
    assert rollout.failure is not None
    assert rollout.reward is None
    assert rollout.error is not None
    assert rollout.error.startswith(rollout.failure.code)
    return rollout.failure.code, rollout.failure.detail, rollout.failure.boundary


BOOM = ValueError("boom")


@pytest.mark.parametrize(
    ("stage", "error", "expected"),
    [
        ("create", BOOM, ("HOST_ERROR", None, "sandbox")),
        ("create", EnvFailed("no such image", detail="image_pull"), ("ENV_FAILED", "image_pull", "sandbox")),
        ("create", Unsupported("no gpus"), ("ENV_FAILED", "unsupported", "sandbox")),
        ("create", HostError("no engine"), ("HOST_ERROR", None, "sandbox")),
        ("setup", BOOM, ("ENV_FAILED", None, "dataset")),
        ("setup", SystemExit(3), ("ENV_FAILED", None, "dataset")),
        ("setup", HostError("mirror is down", detail="network"), ("HOST_ERROR", "network", "dataset")),
        ("setup", SandboxGone("gone", oom=True), ("HOST_ERROR", "oom", "sandbox")),
        ("prepare", BOOM, ("ENV_FAILED", "agent_setup", "agent")),
        ("prepare", AgentFailed("cannot be installed"), ("ENV_FAILED", "agent_setup", "agent")),
        ("prepare", EnvFailed("no key", detail="missing_key"), ("ENV_FAILED", "missing_key", "agent")),
        ("prepare", HostError("down"), ("HOST_ERROR", "agent_setup", "agent")),
        ("solve", EnvFailed("unknown model", detail="model_api"), ("ENV_FAILED", "model_api", "agent")),
        ("solve", HostError("429", detail="model_api"), ("HOST_ERROR", "model_api", "agent")),
        ("solve", SandboxGone("gone"), ("HOST_ERROR", "sandbox_gone", "sandbox")),
        ("score", BOOM, ("VERIFIER_ERROR", None, "scorer")),
        ("score", SystemExit(0), ("VERIFIER_ERROR", None, "scorer")),
        ("score", VerifierError("no tests ran"), ("VERIFIER_ERROR", None, "scorer")),
        ("score", EnvFailed("no key"), ("ENV_FAILED", None, "scorer")),
        ("score", SandboxGone("gone"), ("HOST_ERROR", "sandbox_gone", "sandbox")),
    ],
)
async def test_an_error_keeps_its_code_or_gets_the_one_of_its_part(
    stage: str, error: BaseException, expected: tuple[str, str | None, str]
) -> None:
    if stage == "create":
        rollout = await one(FakeProvider(on={"create": fail(error)}))
    else:
        actions: dict[str, Any] = {stage: fail(error)}
        rollout = await one(**actions)
    assert told(rollout) == expected
    assert (rollout.skipped == "setup_failed") == (stage == "setup")


@pytest.mark.parametrize(
    ("stage", "error", "expected", "says"),
    [
        ("create", BOOM, "fake", "ValueError: boom"),
        ("setup", BOOM, "FakeDataset", "ValueError: boom"),
        ("prepare", BOOM, "FakeAgent", "ValueError: boom"),
        ("score", BOOM, "FakeDataset", "ValueError: boom"),
    ],
)
async def test_an_error_without_a_code_names_its_plugin_and_keeps_its_traceback(
    stage: str, error: Exception, expected: str, says: str
) -> None:
    actions: dict[str, Any] = {} if stage == "create" else {stage: fail(error)}
    rollout = await one(FakeProvider(on={"create": fail(error)} if stage == "create" else None), **actions)
    assert rollout.failure is not None
    assert rollout.failure.plugin == expected
    assert rollout.failure.message == says
    assert "Traceback" in (rollout.failure.traceback or "")
    assert rollout.error is not None
    assert expected in rollout.error


async def test_an_exception_group_counts_as_what_it_holds() -> None:
    group = ExceptionGroup("several", [ValueError("x"), EnvFailed("no key", detail="missing_key")])
    assert told(await one(solve=fail(group)))[:2] == ("ENV_FAILED", "missing_key")


@pytest.mark.parametrize("returned", [False, None, 0])
async def test_setup_that_does_not_return_true_is_skipped(returned: Any) -> None:
    rollout = await one(dataset=FakeDataset(1, ready=returned))
    assert told(rollout) == ("ENV_FAILED", "setup_failed", "dataset")
    assert rollout.skipped == "setup_failed"


@pytest.mark.parametrize(
    ("stage", "expected", "says"),
    [
        ("create", ("HOST_ERROR", "create_timeout", "sandbox"), "create exceeded its limit of 0.05 s"),
        ("setup", ("ENV_FAILED", "setup_timeout", "dataset"), "setup exceeded its limit of 0.05 s"),
        ("prepare", ("ENV_FAILED", "agent_setup", "agent"), "agent setup exceeded its limit of 0.05 s"),
        ("score", ("VERIFIER_ERROR", "score_timeout", "scorer"), "score exceeded its limit of 0.05 s"),
    ],
)
async def test_a_phase_ends_at_its_own_limit_and_the_error_names_it(
    stage: str, expected: tuple[str, str | None, str], says: str
) -> None:
    # Only what hangs has little time: the rest may take its own on a busy machine.
    limits = Limits.model_validate({f"{'setup' if stage == 'prepare' else stage}_s": 0.05})
    if stage == "create":
        rollout = await one(FakeProvider(on={"create": hang()}), limits=limits)
    else:
        actions: dict[str, Any] = {stage: hang()}
        rollout = await one(**actions, limits=limits)
    assert told(rollout) == expected
    assert rollout.failure is not None
    assert says in rollout.failure.message
    assert rollout.phases["setup" if stage == "prepare" else stage] >= 0.05


async def test_a_limit_of_the_run_wins_over_the_datasets_and_a_rule_changes_both() -> None:
    theirs = FakeDataset(1, limits=Limits(setup_s=0.02), on={"setup": hang()})
    assert "0.02 s" in str((await one(dataset=theirs)).error)
    assert "0.03 s" in str((await one(dataset=theirs, limits=Limits(setup_s=0.03))).error)
    rule = {"setup": TimeoutRule(multiplier=2)}
    assert "0.04 s" in str((await one(dataset=theirs, timeouts=rule)).error)
    assert "0.01 s" in str((await one(dataset=theirs, timeouts={"setup": TimeoutRule(maximum=0.01)})).error)


AGENT_ENDS = [
    (hang(), "timeout", "AGENT_TIMEOUT", None),
    (fail(AgentTimeout("my own clock")), "timeout", "AGENT_TIMEOUT", None),
    (fail(LimitReached("max_tokens")), "max_tokens", "AGENT_LIMIT", "max_tokens"),
    (fail(AgentFailed("it gave up")), "agent_error", "AGENT_FAILED", None),
    (fail(BOOM), "agent_error", "AGENT_FAILED", None),
    (fail(SystemExit(1)), "agent_error", "AGENT_FAILED", None),
    (fail(VerifierError("not mine to say")), "agent_error", "AGENT_FAILED", None),
]


@pytest.mark.parametrize(("action", "ended", "code", "detail"), AGENT_ENDS)
async def test_an_agent_that_ends_badly_without_work_is_its_own_failure(
    action: Action, ended: str, code: str, detail: str | None
) -> None:
    rollout = await one(solve=action, limits=SHORT)
    assert told(rollout) == (code, detail, "agent")
    assert (rollout.ended, rollout.skipped, rollout.score) == (ended, None, None)


@pytest.mark.parametrize(("action", "ended", "code", "detail"), AGENT_ENDS)
async def test_an_answer_that_is_a_state_is_scored_and_measured_whatever_ended_the_agent(
    action: Action, ended: str, code: str, detail: str | None
) -> None:
    (rollout,) = await run_rollouts(
        dataset=FakeDataset(1, answer="state", scoring="shared", score={"reward": 1}),
        agent=FakeAgent(on={"solve": action}),
        provider=FakeProvider(),
        limits=SHORT,
    )
    assert (rollout.reward, rollout.ended, rollout.failure, rollout.error) == (1.0, ended, None, None)
    assert any(code in note for note in rollout.notes)


@pytest.mark.parametrize(
    ("result", "ended", "code"),
    [
        (AgentResult(exit_code=1), "agent_error", "AGENT_FAILED"),
        (AgentResult(ended="timeout"), "timeout", "AGENT_TIMEOUT"),
        (AgentResult(ended="max_turns", exit_code=0), "max_turns", "AGENT_LIMIT"),
        (AgentResult(ended="agent_error"), "agent_error", "AGENT_FAILED"),
    ],
)
async def test_a_result_that_tells_of_a_bad_end_counts_as_one(result: AgentResult, ended: str, code: str) -> None:
    dataset, provider = FakeDataset(1, score={"reward": 0.5}), FakeProvider()
    (empty,) = await run_rollouts(dataset=dataset, agent=FakeAgent(result=result), provider=provider)
    assert told(empty)[0] == code
    worked = AgentResult(patch="work", exit_code=result.exit_code, ended=result.ended)
    (kept,) = await run_rollouts(dataset=dataset, agent=FakeAgent(result=worked), provider=provider)
    assert (kept.reward, kept.ended, kept.failure, kept.patch) == (0.5, ended, None, "work")
    assert (empty.ended, empty.agent_exit) == (ended, result.exit_code)


@pytest.mark.parametrize(
    ("info", "said"),
    [
        ({"stderr_tail": "no key\nset one"}, "exit code 1: no key set one"),
        ({"stdout_tail": '{"api_error_status": 401}'}, 'exit code 1: {"api_error_status": 401}'),
        ({"stderr_tail": "", "stdout_tail": "x" * 999 + "end"}, "xend"),
        ({"stderr_tail": 3}, "exit code 1"),
    ],
)
async def test_what_a_failed_agent_said_last_is_told(info: dict[str, Any], said: str) -> None:
    agent = FakeAgent(result=AgentResult(exit_code=1, info=info))
    (rollout,) = await run_rollouts(dataset=FakeDataset(1), agent=agent, provider=FakeProvider())
    assert rollout.failure is not None
    assert rollout.failure.message.endswith(said)
    assert len(rollout.failure.message) < 300


async def test_when_scoring_fails_too_the_ending_of_the_agent_is_still_told() -> None:
    (rollout,) = await run_rollouts(
        dataset=FakeDataset(1, on={"score": fail(BOOM)}),
        agent=FakeAgent(result=AgentResult(patch="x", exit_code=1)),
        provider=FakeProvider(),
    )
    assert told(rollout)[0] == "VERIFIER_ERROR"
    assert (rollout.ended, rollout.patch) == ("agent_error", "x")


@pytest.mark.parametrize(
    "returned",
    [None, "a patch", AgentResult(patch=b"x"), AgentResult(info=None), AgentResult(ended="done")],  # type: ignore[arg-type]
)
async def test_what_is_no_agent_result_is_the_agents_failure(returned: Any) -> None:
    class Wrong:
        async def solve(self, sandbox: Any, instance: dict[str, Any], *, model: str | None) -> Any:
            return returned

    (rollout,) = await run_rollouts(dataset=FakeDataset(1), agent=Wrong(), provider=FakeProvider())
    assert told(rollout)[0] == "AGENT_FAILED"


async def test_an_agent_that_returns_what_it_has_when_it_is_stopped_is_measured() -> None:
    import anyio

    class Quick:
        async def solve(self, sandbox: Any, instance: dict[str, Any], *, model: str | None, context: Any) -> Any:
            assert not context.signal.aborted
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                assert context.signal.aborted
                assert context.signal.reason == "timeout"
                return AgentResult(patch="half")

    (rollout,) = await run_rollouts(
        dataset=FakeDataset(1, score={"reward": 0.5}), agent=Quick(), provider=FakeProvider(), limits=SHORT
    )
    assert (rollout.reward, rollout.ended, rollout.patch) == (0.5, "timeout", "half")


@pytest.mark.parametrize("kept", [AgentResult(patch="half", exit_code=3, usage=Usage(turns=2)), "not a result"])
async def test_what_a_stopped_agent_had_kept_is_its_result(kept: Any) -> None:
    class Keeping:
        async def solve(self, sandbox: Any, instance: dict[str, Any], *, model: str | None, context: Any) -> Any:
            context.keep(AgentResult(patch="too early"))
            context.keep(kept)
            await anyio.sleep_forever()

    (rollout,) = await run_rollouts(
        dataset=FakeDataset(1, score={"reward": 0.5}), agent=Keeping(), provider=FakeProvider(), limits=SHORT
    )
    assert rollout.ended == "timeout"
    if isinstance(kept, AgentResult):
        assert (rollout.reward, rollout.patch, rollout.agent_exit) == (0.5, "half", 3)
        assert rollout.usage == Usage(turns=2)
    else:
        assert (rollout.patch, rollout.failure and rollout.failure.code) == ("", "AGENT_TIMEOUT")


async def test_a_limit_that_the_agent_swallows_is_still_its_ending() -> None:
    class Swallowing:
        async def solve(self, sandbox: Any, instance: dict[str, Any], *, model: str | None, context: Any) -> Any:
            try:
                context.spend(Usage(tool_calls=4))
            except LimitReached:
                return AgentResult(patch="x")

    (rollout,) = await run_rollouts(
        dataset=FakeDataset(1, score={"reward": 0.5}),
        agent=Swallowing(),
        provider=FakeProvider(),
        limits=Limits(max_tool_calls=3),
    )
    assert (rollout.reward, rollout.ended) == (0.5, "max_tool_calls")
    assert rollout.usage == Usage(tool_calls=4)


async def test_a_teardown_that_fails_is_a_note_and_never_replaces_the_result() -> None:
    provider = FakeProvider(on={"delete": fail(HostError("busy"))})
    rollout = await one(provider)
    assert (rollout.reward, rollout.failure) == (1.0, None)
    assert set(rollout.unreleased) == provider.live
    assert len(rollout.unreleased) == 2
    assert any("busy" in note for note in rollout.notes)


async def test_what_the_provider_remarks_of_a_sandbox_is_a_note() -> None:
    class Watching(FakeProvider):
        async def remarks(self, sandbox_id: str) -> tuple[str, ...]:
            assert sandbox_id in self.live
            return ("something was killed for memory",)

    rollout = await one(Watching())
    assert (rollout.reward, rollout.failure) == (1.0, None)
    assert "something was killed for memory" in rollout.notes


async def test_remarks_that_fail_change_nothing() -> None:
    class Confused(FakeProvider):
        async def remarks(self, sandbox_id: str) -> tuple[str, ...]:
            raise ValueError("what was it?")

    rollout = await one(Confused())
    assert (rollout.reward, rollout.failure, rollout.unreleased) == (1.0, None, ())


async def test_a_teardown_that_hangs_ends_at_its_limit() -> None:
    provider = FakeProvider(on={"delete": hang()})
    rollout = await one(provider, limits=Limits(teardown_s=0.05))
    assert (rollout.reward, rollout.failure) == (1.0, None)
    assert set(rollout.unreleased) == provider.live
    assert rollout.phases["teardown"] >= 0.1


async def test_an_agent_whose_sandbox_died_is_not_blamed() -> None:
    provider = FakeProvider()

    async def lose(sandbox: Any, instance: dict[str, Any]) -> AgentResult:
        await provider.lose(sandbox)
        raise RuntimeError("the tool said: connection closed")

    (rollout,) = await run_rollouts(dataset=FakeDataset(1), agent=FakeAgent(work=lose), provider=provider)
    assert told(rollout) == ("HOST_ERROR", "sandbox_gone", "sandbox")
    assert rollout.score is None


async def test_a_sandbox_that_died_unnoticed_is_no_empty_patch() -> None:
    provider = FakeProvider()
    rollout = await one(provider, solve=die(provider), patch="")
    assert told(rollout) == ("HOST_ERROR", "sandbox_gone", "sandbox")
    assert rollout.skipped is None


async def test_a_scorer_whose_sandbox_died_is_not_blamed() -> None:
    provider = FakeProvider()

    class Scorer(FakeDataset):
        async def score(self, sandbox: Any, instance: dict[str, Any], patch: str) -> dict[str, Any]:
            await provider.lose(sandbox)
            raise RuntimeError("connection closed")

    assert told(await one(provider, dataset=Scorer(1))) == ("HOST_ERROR", "sandbox_gone", "sandbox")


async def test_what_is_wrong_with_the_datasets_config_is_the_datasets() -> None:
    class Broken(FakeDataset):
        def sandbox_config(self, instance: dict[str, Any]) -> Any:
            raise KeyError("image")

    assert told(await one(dataset=Broken(1)))[::2] == ("ENV_FAILED", "dataset")


async def test_a_directory_that_cannot_be_made_is_the_hosts(tmp_path: Any) -> None:
    (tmp_path / "file").write_text("")
    rollout = await one(trial_dir=lambda trial: tmp_path / "file" / trial.trial_id)
    assert told(rollout)[::2] == (FailureCode.HOST_ERROR, "host")
