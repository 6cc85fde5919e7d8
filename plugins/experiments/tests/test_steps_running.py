from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from pydantic import BaseModel, ConfigDict

from agentix.api import Case, FailureCode, Scope, StepContext, StepOutcome, UsageError
from agentix.plugins.experiments.commands import Command, CommandRunner
from agentix.plugins.experiments.documents import StepSpec
from agentix.plugins.experiments.steps import ResolvedStep, resolve_step, run_step

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


class Inputs(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: str = ""


class Scripted:
    """A step whose runs end as told, one after the other."""

    scopes = frozenset(Scope)
    Inputs = Inputs

    def __init__(self, *endings) -> None:
        self.endings = list(endings)
        self.seen: list[str] = []

    async def run(self, ctx, inputs):
        self.seen.append(inputs.text)
        ending = self.endings.pop(0)
        if isinstance(ending, BaseException):
            raise ending
        return ending


def resolved(step, *, text="", **spec) -> ResolvedStep:
    return ResolvedStep(
        spec=StepSpec.model_validate({"uses": "scripted", **spec}),
        scope=Scope.PER_TRIAL,
        kind="plugin",
        plugin="scripted (dist 1)",
        key="scripted",
        step=step,
        given={"text": text} if text else {},
    )


@pytest.fixture
def ctx(tmp_path) -> StepContext:
    for name in ("run", "work", "trial", "case"):
        (tmp_path / name).mkdir()
    case = Case(
        name="c",
        label="cases/c",
        source="local",
        dataset="harbor",
        instance={},
        sha256="ab",
        directory=tmp_path / "case",
    )
    return StepContext(
        scope=Scope.PER_TRIAL,
        run_id="nightly",
        run_dir=tmp_path / "run",
        work_dir=tmp_path / "work",
        trial_dir=tmp_path / "trial",
        experiment="spring",
        subject={"trial_id": "c-oracle-1", "reward": 1.0},
        case=case,
    )


NO = StepOutcome(ok=False, message="too easy")


async def test_what_kept_a_step_from_a_verdict_is_tried_again_with_growing_waits(ctx):
    step = Scripted(OSError("gone"), OSError("gone"), StepOutcome(message="fine"))
    waits: list[int] = []
    said: list[str] = []
    result = await run_step(
        resolved(step, retries=2), replace(ctx, say=said.append), backoff=lambda n: waits.append(n) or 0.0
    )
    assert (result.verdict, result.reaction, result.attempts, waits) == ("passed", "go_on", 3, [1, 2])
    assert said == ["scripted: OSError: gone; again in 0 s"] * 2


async def test_a_verdict_is_never_asked_for_again(ctx):
    result = await run_step(resolved(Scripted(NO), retries=5), ctx)
    assert (result.verdict, result.attempts, result.message) == ("rejected", 1, "too easy")


async def test_what_the_user_has_to_correct_is_not_tried_again(ctx):
    result = await run_step(resolved(Scripted(UsageError("no such bucket", hint="make it")), retries=5), ctx)
    assert (result.verdict, result.attempts) == ("failed", 1)
    assert result.failure is not None and result.failure.message == "scripted: no such bucket\n  make it"


async def test_what_a_step_raises_is_a_failure_with_the_plugins_name(ctx):
    result = await run_step(resolved(Scripted(RuntimeError("boom"))), ctx)
    failure = result.failure
    assert failure is not None and result.stops
    assert (failure.code, failure.boundary, failure.plugin) == (FailureCode.STEP_FAILED, "step", "scripted (dist 1)")
    assert failure.message == "scripted: RuntimeError: boom" and "RuntimeError: boom" in (failure.traceback or "")


@pytest.mark.parametrize("returned", [None, True, {"ok": True}])
async def test_what_is_no_outcome_is_a_failure(ctx, returned):
    result = await run_step(resolved(Scripted(returned)), ctx)
    assert result.verdict == "failed" and "not a StepOutcome" in result.message


@pytest.mark.parametrize(
    ("spec", "ending", "reaction", "code"),
    [
        ({}, NO, "fail", FailureCode.STEP_FAILED),
        ({"on_failure": "warn"}, NO, "warn", None),
        ({"on_violation": "drop"}, NO, "drop", None),
        ({"on_violation": "warn", "on_failure": "skip"}, NO, "warn", None),
        ({"on_failure": "skip"}, NO, "skip", None),
        ({"on_violation": "drop"}, ValueError("x"), "fail", FailureCode.STEP_FAILED),
        ({"on_failure": "warn"}, ValueError("x"), "warn", FailureCode.STEP_FAILED),
        ({}, StepOutcome(drop=True), "drop", None),
        ({}, StepOutcome(), "go_on", None),
    ],
)
async def test_the_file_says_what_an_ending_means(ctx, spec, ending, reaction, code):
    result = await run_step(resolved(Scripted(ending), **spec), ctx)
    assert result.reaction == reaction
    assert (None if result.failure is None else result.failure.code) == code


async def test_cancellation_goes_through_and_is_not_tried_again(ctx):
    class Slow(Scripted):
        async def run(self, ctx, inputs):
            self.seen.append("started")
            await anyio.sleep_forever()

    step = Slow()
    async with anyio.create_task_group() as group:
        group.start_soon(run_step, resolved(step, retries=5), ctx)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert step.seen == ["started"]


async def test_templates_are_filled_in_for_each_unit(ctx):
    step = Scripted(StepOutcome(), StepOutcome())
    one = resolved(step, text="{{.Experiment}} {{ .RunID }} {{.TrialID}} {{.Case}} {{.Key}} {{.LocalPath}}")
    await run_step(one, ctx)
    await run_step(one, replace(ctx, subject={"trial_id": "c-nop-1"}))
    assert step.seen == [
        f"spring nightly {name} c spring/nightly/{name} {ctx.trial_dir}" for name in ("c-oracle-1", "c-nop-1")
    ]


def script(text: str, **values) -> Command:
    return Command(name="mine", form="script", script=text, origin=Path("file.yaml"), **values)


async def run_command(ctx, command, *, given=None, uses="mine", **spec):
    step = StepSpec.model_validate({"uses": uses, "with": given or {}, **spec})
    found = resolve_step(step, ctx.scope, {"mine": command}, first=False)
    async with CommandRunner() as runner:
        return await run_step(found, ctx, runner=runner, backoff=lambda _: 0.0)


async def test_a_command_gets_the_unit_and_its_inputs_in_its_environment(ctx):
    names = (
        "EXPERIMENT RUN_ID RUN_DIR LOCAL_PATH KEY CASE_DIR CASE_LABEL CASE_SHA TRIAL_ID OUT_DIR MAX_SIZE DEEP ON PWD"
    )
    (ctx.trial_dir / "out").mkdir()
    result = await run_command(
        ctx,
        script(f"for n in {names}; do echo $n=${{!n}}; done > $WORK_DIR/all"),
        given={"maxSize": "{{.RunID}}-1", "deep": {"a": [1]}, "on": True},
    )
    assert result.verdict == "passed", result
    seen = dict(line.split("=", 1) for line in (ctx.work_dir / "all").read_text().splitlines())
    assert seen == {
        "EXPERIMENT": "spring",
        "RUN_ID": "nightly",
        "RUN_DIR": str(ctx.run_dir),
        "LOCAL_PATH": str(ctx.trial_dir),
        "KEY": "spring/nightly/c-oracle-1",
        "CASE_DIR": str(ctx.case.directory),
        "CASE_LABEL": "cases/c",
        "CASE_SHA": "ab",
        "TRIAL_ID": "c-oracle-1",
        "OUT_DIR": str(ctx.trial_dir / "out"),
        "MAX_SIZE": "nightly-1",
        "DEEP": '{"a": [1]}',
        "ON": "true",
        "PWD": str(Path.cwd()),
    }


async def test_an_input_cannot_take_the_place_of_a_variable_of_ours(ctx):
    result = await run_command(ctx, script('echo "$RUN_DIR"'), given={"run_dir": "/elsewhere"})
    assert result.message == str(ctx.run_dir)


async def test_a_commands_exit_status_is_its_verdict_and_75_is_none(ctx):
    counted = 'cd "$WORK_DIR"; echo x >> n; test "$(wc -l < n)" -ge 3 || exit 75'
    result = await run_command(ctx, script(counted), retries=5)
    assert (result.verdict, result.attempts) == ("passed", 3)
    rejected = await run_command(ctx, script("echo 'two files are missing' >&2; exit 3"), retries=5)
    assert (rejected.verdict, rejected.attempts, rejected.message) == ("rejected", 1, "two files are missing")
    later = await run_command(ctx, script("echo busy; exit 75"))
    assert later.verdict == "failed" and later.failure is not None and later.failure.detail == "try_later"
    assert later.message == "asks to be tried again later (exit status 75): busy"


async def test_a_command_that_ships_comes_to_no_verdict_and_is_tried_again(ctx):
    counted = 'cd "$WORK_DIR"; echo x >> n; test "$(wc -l < n)" -ge 3 || { echo the bucket is gone >&2; exit 3; }'
    ship = {"uses": "ship", "given": {"using": "mine"}}
    once = await run_command(ctx, script(counted), **ship)
    assert (once.verdict, once.message) == ("failed", "exit status 3: the bucket is gone")
    assert once.failure is not None and once.failure.detail == "not_shipped" and once.failure.traceback is None
    again = await run_command(ctx, script(counted), **ship, retries=5)
    assert (again.verdict, again.attempts) == ("passed", 2)


async def test_a_command_that_a_signal_or_the_clock_ends_has_no_verdict(ctx):
    killed = await run_command(ctx, script("kill -KILL $$"))
    assert killed.verdict == "failed" and "SIGKILL" in killed.message
    slow = await run_command(ctx, script("sleep 60", timeout_s=0.2))
    assert slow.verdict == "failed" and "was killed" in slow.message
