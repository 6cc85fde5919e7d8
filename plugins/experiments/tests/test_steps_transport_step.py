"""A transport as a step: what it tells and keeps, what it does not, and what is tried again."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pydantic import BaseModel

from agentix.api import FailureCode, Scope, Secrets, ShipError, ShipRefused, StepContext, StepOutcome
from agentix.cli.api import size
from agentix.plugins.experiments.documents import StepSpec
from agentix.plugins.experiments.steps import ResolvedStep, resolve_step, run_step
from agentix.plugins.experiments.steps.foreseeing import foreseen
from agentix.plugins.experiments.steps.shipping import Ship
from agentix.plugins.experiments.steps.transport_step import TransportStep

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


@pytest.fixture
def ctx(tmp_path) -> StepContext:
    tree, work = tmp_path / "run" / ".staging", tmp_path / "work"
    (tree / "dataset" / "data").mkdir(parents=True)
    work.mkdir()
    (tree / "dataset" / "README.md").write_bytes(b"x" * 500)
    (tree / "dataset" / "data" / "trials.jsonl").write_bytes(b"y" * 11_500)
    return StepContext(scope=Scope.PER_EXPERIMENT, run_id="r", run_dir=tree, work_dir=work, path=tree / "dataset")


def step(given, **more) -> ResolvedStep:
    spec = StepSpec.model_validate({"uses": "ship_my_store", "with": given, **more})
    return resolve_step(spec, Scope.PER_EXPERIMENT, {})


async def test_it_says_what_went_where_and_keeps_the_receipt(depot, ctx):
    result = await run_step(step({"dest": "shelf"}), ctx)
    assert (result.verdict, result.message) == ("passed", "2 files, 12 kB to https://depot/shelf")
    kept = json.loads((ctx.work_dir / "receipt.json").read_text())
    assert kept == {
        "destination": "https://depot/shelf",
        "files": 2,
        "bytes": 12_000,
        "details": {"commit": "abc", "mirrors": ["ssh://mirror/x"]},
    }
    assert result.outcome is not None and dict(result.outcome.outputs) == kept
    assert [path.name for path in ctx.work_dir.iterdir()] == ["receipt.json"]


async def test_shipping_again_replaces_the_receipt(depot, ctx):
    await run_step(step({"dest": "shelf"}), ctx)
    (ctx.path / "README.md").unlink()
    await run_step(step({"dest": "shelf"}), ctx)
    assert json.loads((ctx.work_dir / "receipt.json").read_text())["files"] == 1


async def test_known_secrets_are_in_no_receipt_and_no_message(depot, ctx):
    ctx = replace(ctx, secrets=Secrets(["shelf-of-secrets"]))
    result = await run_step(step({"dest": "shelf-of-secrets"}), ctx)
    assert result.message.endswith("to https://depot/***")
    assert b"secrets" not in (ctx.work_dir / "receipt.json").read_bytes()


async def test_what_may_pass_is_tried_again_and_its_address_has_no_password(depot, ctx):
    waits: list[int] = []
    said: list[str] = []
    ctx = replace(ctx, say=said.append)
    result = await run_step(step({"dest": "busy"}, retries=2), ctx, backoff=lambda n: waits.append(n) or 0.0)
    assert (result.verdict, result.attempts, waits) == ("failed", 3, [1, 2])
    assert result.failure is not None and result.failure.code is FailureCode.STEP_FAILED
    assert result.message == "https://depot/busy is busy"
    assert not any("hunter2" in text for text in (*said, result.failure.message, result.failure.traceback or ""))
    assert not (ctx.work_dir / "receipt.json").exists()


async def test_what_does_not_pass_is_not_tried_again(depot, ctx):
    result = await run_step(step({"dest": "closed"}, retries=2), ctx)
    assert (result.verdict, result.attempts, result.message) == ("failed", 1, "the depot is closed")
    nothing = await run_step(step({"dest": "shelf"}, retries=2), replace(ctx, path=None))
    assert (nothing.verdict, nothing.attempts) == ("failed", 1)
    assert nothing.message == "ship_my_store: there is nothing to ship"


async def test_a_refusal_in_a_group_of_one_is_a_refusal(ctx):
    result = await run_step(failing(ExceptionGroup("tasks", [ShipRefused("no")]), retries=3), ctx)
    assert (result.attempts, result.message) == (1, "no")


async def test_a_failed_redaction_has_a_code_of_its_own(ctx):
    for ending in (ShipError("no"), StepOutcome(ok=False, message="no")):
        result = await run_step(replace(failing(ending), redacts=True), ctx)
        assert result.failure is not None and result.failure.code is FailureCode.REDACT_FAILED
        assert result.message == "no"


async def test_the_step_ship_ships_without_a_file_too(depot, ctx):
    inputs = Ship.Inputs(using="my-store", dest="shelf", options={"depth": 2})
    outcome = await Ship().run(ctx, inputs)
    assert outcome.message == "2 files, 12 kB to https://depot/shelf"


async def test_a_transport_is_asked_ahead(depot, ctx):
    resolved = step({"dest": "locked"})
    assert isinstance(resolved.step, TransportStep)
    assert list(resolved.step.check(resolved.inputs(ctx))) == ["there is no program depot; install it"]
    assert list(resolved.step.check(step({"dest": "shelf"}).inputs(ctx))) == []


async def test_a_transport_foresees_what_many_trials_come_to(depot):
    resolved = replace(step({"dest": "shelf"}), ships=True)
    assert list(foreseen([resolved], 1000)) == []
    assert list(foreseen([resolved], 1001)) == [f"{resolved.label}: 1001 trials do not fit on shelf"]


async def test_a_transport_tells_where_to(depot, ctx):
    resolved = step({"dest": "shelf"})
    where = resolved.step.destination(ctx, resolved.inputs(ctx))
    assert where == f"https://me:hunter2@depot/shelf/{ctx.path.name}"
    assert resolved.step.destination(replace(ctx, path=None), resolved.inputs(ctx)) is None


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (999_600, "1 MB"),
        (12_345_678, "12.3 MB"),
        (5 * 10**12, "5 TB"),
    ],
)
async def test_sizes_are_for_people(count, said):
    assert size(count) == said


def failing(ending, **spec) -> ResolvedStep:
    class Nothing(BaseModel):
        pass

    class Fails:
        scopes = frozenset(Scope)
        Inputs = Nothing

        async def run(self, ctx, inputs):
            if isinstance(ending, BaseException):
                raise ending
            return ending

    return ResolvedStep(
        spec=StepSpec.model_validate({"uses": "x", **spec}),
        scope=Scope.PER_EXPERIMENT,
        kind="plugin",
        plugin="x (dist 1)",
        key="x",
        step=Fails(),
    )
