"""The contract checks find what is wrong, and waivers excuse only what they name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel, ConfigDict

from agentix.errors import ConfigError
from agentix.interfaces import Receipt, Scope, StepContext, StepOutcome
from agentix.testing import (
    AgentCase,
    CheckResult,
    DatasetCase,
    NotApplicable,
    ProviderCase,
    StepCase,
    TransportCase,
    checks_of,
    run_checks,
)

pytestmark = pytest.mark.anyio


class Inputs(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: str = "x"


class Lenient(BaseModel):
    text: str = "x"


class GoodStep:
    """Writes a text."""

    scopes = frozenset({Scope.PER_TRIAL})
    Inputs: type[BaseModel] = Inputs

    async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
        (ctx.work_dir / "out").write_text(inputs.text)
        return StepOutcome()


class LenientStep(GoodStep):
    Inputs = Lenient


class WritesElsewhere(GoodStep):
    async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
        (ctx.run_dir / "out").write_text(inputs.text)
        return StepOutcome()


class OnlyOnce(GoodStep):
    async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
        (ctx.work_dir / "out").mkdir()
        return StepOutcome()


class WritesIntoTheTrial(GoodStep):
    async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
        (ctx.trial_dir / "trajectory.json").unlink(missing_ok=True)
        (ctx.trial_dir / "redacted").mkdir(exist_ok=True)
        return StepOutcome()


class ChangesTheProcess(GoodStep):
    async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
        os.environ["AGENTIX_CHECK_LEFT"] = "1"
        return StepOutcome()


class Appends(GoodStep):
    """Writes one more line each time."""

    async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
        with (ctx.run_dir / "log").open("a") as file:
            file.write("ran\n")
        return StepOutcome()


class SaysNothing(GoodStep):
    async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
        return StepOutcome(ok=False)


class AsksAgain(GoodStep):
    """Takes a cancelled probe for a failed one."""

    scopes = frozenset({Scope.PER_CASE})

    async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
        try:
            await ctx.probe("oracle")
        except BaseException:
            return StepOutcome(ok=False, message="the probe failed")
        return StepOutcome()


class LeavesALock(GoodStep):
    """Cannot run after it was stopped."""

    async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
        lock = ctx.work_dir / "lock"
        if lock.exists():
            return StepOutcome(ok=False, message="another one runs")
        lock.touch()
        await anyio.lowlevel.checkpoint()
        lock.unlink()
        return StepOutcome()


class Nested(BaseModel):
    level: Lenient = Lenient()
    model_config = ConfigDict(extra="forbid")


class LenientBelow(GoodStep):
    Inputs = Nested


class WronglyMarked(GoodStep):
    reports = True


class Undocumented:
    scopes = frozenset({Scope.PER_TRIAL})
    Inputs = Inputs

    async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
        return StepOutcome()


class NoScopes(GoodStep):
    scopes = frozenset()


class GoodTransport:
    scopes = frozenset({Scope.PER_EXPERIMENT})
    Inputs: type[BaseModel] = Inputs
    host_env: tuple[str, ...] = ("HTTPS_PROXY",)

    async def ship(self, source: Any, inputs: Any, ctx: StepContext) -> Receipt:
        files = [source] if source.is_file() else [p for p in source.rglob("*") if p.is_file()]
        return Receipt(destination="store://place", files=len(files), bytes=sum(p.stat().st_size for p in files))


class Tells(GoodTransport):
    async def ship(self, source: Any, inputs: Any, ctx: StepContext) -> Receipt:
        return Receipt(destination="https://me:secret@store/place", files=2, bytes=11)


class Miscounts(GoodTransport):
    async def ship(self, source: Any, inputs: Any, ctx: StepContext) -> Receipt:
        return Receipt(destination="store://place", files=1, bytes=11)


async def outcomes(kind: Any, plugin: object, case: Any = None, **more: Any) -> dict[str, CheckResult]:
    return {result.name: result for result in await run_checks(kind, plugin, case=case, **more)}


def failed(results: dict[str, CheckResult]) -> list[str]:
    return [name for name, result in results.items() if result.outcome == "failed"]


async def test_a_good_step_and_transport_pass() -> None:
    for kind, plugin, case in (
        ("step", GoodStep(), StepCase(inputs={"text": "y"})),
        ("transport", GoodTransport(), TransportCase(inputs={})),
    ):
        results = await outcomes(kind, plugin, case)
        left_out = {name for name, r in results.items() if r.outcome == "skipped"}
        assert left_out == {"known_secrets_are_taken_out" if kind == "step" else "its_tools_see_no_other_variables"}
        assert {r.outcome for r in results.values()} == {"passed", "skipped"}
        assert all(r.promise for r in results.values())


@pytest.mark.parametrize(
    ("plugin", "check", "said"),
    [
        (LenientStep(), "inputs_are_strict", 'extra="forbid"'),
        (NoScopes(), "scopes_are_declared", "frozenset()"),
        (WritesElsewhere(), "it_writes_only_to_its_place", "it changed what it may only read: run/out"),
        (WritesIntoTheTrial(), "it_writes_only_to_its_place", "trial/redacted, trial/trajectory.json"),
        (ChangesTheProcess(), "it_writes_only_to_its_place", "environment: AGENTIX_CHECK_LEFT"),
        (OnlyOnce(), "running_twice_is_safe", "FileExistsError"),
        (Appends(), "running_twice_is_safe", "the second run left something else in log"),
        (SaysNothing(), "running_twice_is_safe", "did not say why"),
        (AsksAgain(), "cancellation_goes_through", "it was cancelled while it waited for a probe, and went on"),
        (LeavesALock(), "cancellation_goes_through", "another one runs"),
        (LenientBelow(), "inputs_have_a_schema", "an unknown key of Lenient is accepted"),
        (WronglyMarked(), "marks_fit_the_scopes", "only a per-experiment step can report"),
        (Undocumented(), "it_says_what_it_does", "Undocumented has no docstring"),
    ],
)
async def test_a_faulty_step_fails_the_check_of_the_promise(
    plugin: object, check: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare_trial(directory: Path) -> None:
        (directory / "trajectory.json").write_text("{}")

    monkeypatch.setenv("AGENTIX_CHECK_LEFT", "")
    case = StepCase(inputs={}, prepare_trial=prepare_trial, writes=("log",) if isinstance(plugin, Appends) else ())
    results = await outcomes("step", plugin, case, only=[check])
    assert failed(results) == [check]
    assert said in results[check].message


@pytest.mark.parametrize(("plugin", "said"), [(Tells(), "password"), (Miscounts(), "it says 1 with 11")])
async def test_a_faulty_transport_fails(plugin: object, said: str) -> None:
    results = await outcomes("transport", plugin, TransportCase(inputs={}))
    assert failed(results) == ["shipping_twice_is_safe", "a_file_is_shipped_too"]
    assert said in results["shipping_twice_is_safe"].message


async def test_without_inputs_a_step_is_not_run_and_that_is_said() -> None:
    result = (await outcomes("step", WritesElsewhere()))["running_twice_is_safe"]
    assert (result.outcome, result.message) == ("skipped", "the case has no inputs to run it with")


async def test_a_waiver_excuses_a_failure_and_keeps_its_reason() -> None:
    waivers = {"inputs_are_strict": "the store adds keys"}
    result = (await outcomes("step", LenientStep(), waivers=waivers))["inputs_are_strict"]
    assert result.outcome == "waived"
    assert result.ok
    assert result.message.startswith("the store adds keys (an unknown input is accepted")


async def test_a_waiver_of_a_check_that_passes_is_reported() -> None:
    result = (await outcomes("step", GoodStep(), waivers={"inputs_are_strict": "old"}))["inputs_are_strict"]
    assert result.outcome == "stale waiver"
    assert result.ok


@pytest.mark.parametrize("reason", ["", "  "])
async def test_a_waiver_without_a_reason_is_an_error(reason: str) -> None:
    with pytest.raises(ConfigError, match="the waiver of 'inputs_are_strict' gives no reason"):
        await run_checks("step", GoodStep(), waivers={"inputs_are_strict": reason})


async def test_unknown_checks_and_cases_of_another_kind_are_errors() -> None:
    with pytest.raises(ConfigError, match="did you mean 'inputs_are_strict'"):
        await run_checks("step", GoodStep(), waivers={"input_are_strict": "why"})
    with pytest.raises(ConfigError, match="a step has no check 'dial_gives_a_stream'"):
        await run_checks("step", GoodStep(), only=["dial_gives_a_stream"])
    with pytest.raises(ConfigError, match="checked with a StepCase, not a ProviderCase"):
        await run_checks("step", GoodStep(), case=ProviderCase())


async def test_a_plugin_that_hangs_fails_at_the_limit() -> None:
    import anyio

    class Hangs(GoodStep):
        async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
            await anyio.sleep_forever()
            raise NotApplicable

    case = StepCase(inputs={}, timeout_s=0.05)
    result = (await outcomes("step", Hangs(), case, only=["running_twice_is_safe"]))["running_twice_is_safe"]
    assert (result.outcome, result.message) == ("failed", "it did not end within 0.05 s")


async def test_a_plugin_that_exits_is_a_failure() -> None:
    class Exits(GoodStep):
        async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
            raise SystemExit(3)

    results = await outcomes("step", Exits(), StepCase(inputs={}))
    assert failed(results) == [
        "running_twice_is_safe",
        "it_writes_only_to_its_place",
        "cancellation_goes_through",
        "what_it_publishes_is_fit",
        "publishing_again_is_the_same",
    ]


async def test_a_plugin_that_is_a_context_manager_is_entered_and_left() -> None:
    class Managed(GoodStep):
        log: list[str]

        async def __aenter__(self) -> None:
            self.log = ["in"]

        async def __aexit__(self, *exc: object) -> None:
            self.log.append("out")

    plugin = Managed()
    await run_checks("step", plugin)
    assert plugin.log == ["in", "out"]


async def test_every_check_states_a_promise_and_has_a_name_of_its_own() -> None:
    for kind in ("provider", "dataset", "agent", "step", "transport"):
        checks = checks_of(kind)
        assert len({c.name for c in checks}) == len(checks)
        assert all(c.promise.endswith(".") and c.function.__doc__ for c in checks)


class GoodDataset:
    """Two tasks: write the right word."""

    def instances(self) -> Any:
        return iter([{"instance_id": f"t{n}", "instruction": "write"} for n in (1, 2)])

    def image(self, instance: Any) -> str:
        return ""

    async def setup(self, sandbox: Any, instance: Any) -> bool:
        return True

    async def score(self, sandbox: Any, instance: Any, patch: str) -> dict[str, Any]:
        return {"resolved": "+right" in patch, "metrics": {"length": len(patch)}}

    async def reference(self, sandbox: Any, instance: Any) -> Any:
        from agentix.models import AgentResult

        await sandbox.write_file(f"{sandbox.workdir}/answer", b"right\n")
        return AgentResult()


class OneId(GoodDataset):
    def instances(self) -> Any:
        return iter([{"instance_id": "t", "instruction": "write"}] * 2)


class OnceOnly(GoodDataset):
    def __init__(self) -> None:
        self._left = GoodDataset().instances()

    def instances(self) -> Any:
        return self._left


class PassesAnything(GoodDataset):
    answer = "state"

    async def score(self, sandbox: Any, instance: Any, patch: str) -> dict[str, Any]:
        return {"reward": 1.0}


class WrongReference(GoodDataset):
    async def reference(self, sandbox: Any, instance: Any) -> Any:
        from agentix.models import AgentResult

        await sandbox.write_file(f"{sandbox.workdir}/answer", b"wrong\n")
        return AgentResult()


class NoReward(GoodDataset):
    async def score(self, sandbox: Any, instance: Any, patch: str) -> dict[str, Any]:
        return {"reward": float("nan")}


def host_process() -> Any:
    from agentix.sandbox import HostProcessProvider

    return HostProcessProvider()


async def test_a_good_dataset_passes() -> None:
    results = await outcomes("dataset", GoodDataset(), DatasetCase(provider=host_process(), instances=2))
    assert failed(results) == []
    assert results["the_reference_passes"].outcome == "passed"
    assert results["doing_nothing_is_measured_and_fails"].outcome == "passed"


@pytest.mark.parametrize(
    ("plugin", "check", "said"),
    [
        (OneId(), "ids_are_unique", "two instances have the id 't'"),
        (OnceOnly(), "instances_come_again", "it has no instances"),
        (PassesAnything(), "doing_nothing_is_measured_and_fails", "t1: doing nothing resolves it"),
        (WrongReference(), "the_reference_passes", "t1: the reference got {"),
        (NoReward(), "the_reference_passes", "t1 has no reward: VERIFIER_ERROR"),
    ],
)
async def test_a_faulty_dataset_fails_the_check_of_the_promise(plugin: object, check: str, said: str) -> None:
    results = await outcomes("dataset", plugin, DatasetCase(provider=host_process()), only=[check])
    assert failed(results) == [check]
    assert results[check].message.startswith(said)


async def test_without_a_provider_only_what_needs_no_sandbox_is_checked() -> None:
    results = await outcomes("dataset", WrongReference())
    assert results["the_reference_passes"].outcome == "skipped"
    assert results["ids_are_unique"].outcome == "passed"


class GoodAgent:
    async def solve(self, sandbox: Any, instance: Any, *, model: str | None) -> Any:
        from agentix.models import AgentResult

        await sandbox.exec("sleep 0.2; echo done > answer.txt")
        return AgentResult(exit_code=0)


class WantsContext(GoodAgent):
    async def solve(self, sandbox: Any, instance: Any, *, model: str | None, context: Any) -> Any:  # type: ignore[override]
        assert context.instruction
        return await super().solve(sandbox, instance, model=model)


class WantsMore(GoodAgent):
    async def solve(self, sandbox: Any, instance: Any, *, model: str | None, key: str) -> Any: ...  # type: ignore[override]


class ReturnsText(GoodAgent):
    async def solve(self, sandbox: Any, instance: Any, *, model: str | None) -> Any:
        return "a patch"


@pytest.mark.parametrize("agent", [GoodAgent(), WantsContext()])
async def test_a_good_agent_passes(agent: object) -> None:
    results = await outcomes("agent", agent, AgentCase(provider=host_process()))
    assert {r.outcome for r in results.values()} == {"passed"}


@pytest.mark.parametrize(
    ("agent", "check"), [(WantsMore(), "solve_has_the_signature"), (ReturnsText(), "solve_returns_a_result")]
)
async def test_a_faulty_agent_fails_the_check_of_the_promise(agent: object, check: str) -> None:
    results = await outcomes("agent", agent, AgentCase(provider=host_process()), only=[check])
    assert failed(results) == [check]


async def test_an_agent_that_goes_on_after_its_cancellation_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    import anyio

    from agentix.testing import agent_checks

    monkeypatch.setattr(agent_checks, "_GRACE_S", 0.1)

    class Stubborn(GoodAgent):
        async def solve(self, sandbox: Any, instance: Any, *, model: str | None) -> Any:
            from agentix.models import AgentResult

            with anyio.CancelScope(shield=True):
                await sandbox.exec("sleep 0.4")
            return AgentResult()

    results = await outcomes("agent", Stubborn(), AgentCase(provider=host_process()), only=["solve_can_be_cancelled"])
    assert failed(results) == ["solve_can_be_cancelled"]


async def test_a_plugin_may_bring_its_own_waivers_and_each_result_is_told_at_once() -> None:
    class Excused(LenientStep):
        contract_waivers = {"inputs_are_strict": "keys are free"}  # noqa: RUF012

    told: list[str] = []
    results = await outcomes("step", Excused(), on_result=lambda result: told.append(result.name))
    assert results["inputs_are_strict"].outcome == "waived"
    assert told == list(results)
