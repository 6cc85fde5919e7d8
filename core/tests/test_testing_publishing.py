"""The contract checks find what is wrong with what a step publishes, and with what a transport's programs see."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel, ConfigDict

from agentix.interfaces import Receipt, Scope, StepContext, StepOutcome
from agentix.redaction import Redactor
from agentix.sandbox import run_tool
from agentix.testing import CheckResult, StepCase, TransportCase, run_checks

pytestmark = pytest.mark.anyio


class Inputs(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Packs:
    """Publishes a list of what is in the trial."""

    scopes = frozenset({Scope.PER_TRIAL})
    Inputs = Inputs
    publishes = True
    place = "archives/{}.txt"

    async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
        file = ctx.work_dir / "list.txt"
        file.write_text("\n".join(sorted(path.name for path in ctx.trial_dir.rglob("*"))))
        return StepOutcome(publish={self.place.format(ctx.subject["trial_id"]): file})


class PacksUnmarked(Packs):
    publishes = False


class PacksOverTheResults(Packs):
    place = "results.jsonl"


class PacksAsATrial(Packs):
    place = "trials/{}"


class PacksOutside(Packs):
    place = "../{}"


class PacksWhatIsNotThere(Packs):
    async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
        return StepOutcome(publish={"archives/x": ctx.work_dir / "gone"})


class PacksTheTrialItself(Packs):
    async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
        return StepOutcome(publish={"archives/x": ctx.trial_dir})


class PacksALink(Packs):
    async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
        made = ctx.work_dir / "made"
        made.mkdir(exist_ok=True)
        if not (made / "link").is_symlink():
            (made / "link").symlink_to("/etc/passwd")
        return StepOutcome(publish={"archives/x": made})


class PacksOnce(Packs):
    async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
        mark = ctx.work_dir / "mark"
        if mark.exists():
            return StepOutcome()
        mark.touch()
        return await super().run(ctx, inputs)


class PacksMoreEachTime(Packs):
    async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
        mark = ctx.work_dir / "mark"
        before = mark.read_text() if mark.exists() else ""
        mark.write_text(before + "x")
        file = ctx.work_dir / "made"
        file.write_text(before)
        return StepOutcome(publish={"archives/x": file})


class PacksCases(Packs):
    scopes = frozenset({Scope.PER_CASE})


class Redacts:
    """Copies the trial without secrets."""

    scopes = frozenset({Scope.PER_TRIAL})
    Inputs = Inputs
    redacts = True

    async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
        target = ctx.work_dir / "clean"
        shutil.rmtree(target, ignore_errors=True)
        counts = self.copy(ctx, target)
        return StepOutcome(publish={f"trials/{ctx.subject['trial_id']}": target}, redaction=counts)

    def copy(self, ctx: StepContext, target: Path) -> dict[str, int]:
        return dict(Redactor(ctx.secrets).tree(ctx.trial_dir, target).counts)


class RedactsNothing(Redacts):
    def copy(self, ctx: StepContext, target: Path) -> dict[str, int]:
        shutil.copytree(ctx.trial_dir, target)
        return {"known": 1}


class RedactsPlainTextOnly(Redacts):
    def copy(self, ctx: StepContext, target: Path) -> dict[str, int]:
        shutil.copytree(ctx.trial_dir, target)
        for path in [path for path in target.rglob("*") if path.is_file()]:
            path.write_bytes(path.read_bytes().replace(b'ak-\\canary"/+0123456789', b"***"))
        return {"known": 1}


class RedactsFilesAndNoNames(Redacts):
    def copy(self, ctx: StepContext, target: Path) -> dict[str, int]:
        shutil.copytree(ctx.trial_dir, target)
        for path in [path for path in target.rglob("*") if path.is_file()]:
            path.write_bytes(ctx.secrets.data(path.read_bytes()))
        return {"known": 1}


class RedactsAndCountsNothing(Redacts):
    def copy(self, ctx: StepContext, target: Path) -> dict[str, int]:
        super().copy(ctx, target)
        return {}


class RedactsAndPublishesMore(Redacts):
    async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
        outcome = await super().run(ctx, inputs)
        return StepOutcome(publish={**outcome.publish, "trials/other": ctx.work_dir / "clean"})


class RedactsRuns(Redacts):
    scopes = frozenset({Scope.PER_TRIAL, Scope.PER_EXPERIMENT})


class RedactsAndPublishes(Redacts):
    publishes = True


async def outcomes(kind: Any, plugin: object, case: Any, **more: Any) -> dict[str, CheckResult]:
    return {result.name: result for result in await run_checks(kind, plugin, case=case, **more)}


def with_files(directory: Path) -> None:
    (directory / "out").mkdir()
    (directory / "out" / "answer.txt").write_text("42")


@pytest.mark.parametrize("plugin", [Packs(), Redacts()])
async def test_a_good_one_passes(plugin: object) -> None:
    results = await outcomes("step", plugin, StepCase(inputs={}, prepare_trial=with_files))
    assert {name: r.message for name, r in results.items() if r.outcome == "failed"} == {}
    assert (results["known_secrets_are_taken_out"].outcome == "passed") == isinstance(plugin, Redacts)


@pytest.mark.parametrize(
    ("plugin", "check", "said"),
    [
        (PacksUnmarked(), "what_it_publishes_is_fit", "it needs publishes = True"),
        (PacksOverTheResults(), "what_it_publishes_is_fit", "'results.jsonl' is the run's own"),
        (PacksAsATrial(), "what_it_publishes_is_fit", "'trials/case-agent-1' is the run's own"),
        (PacksOutside(), "what_it_publishes_is_fit", "is no plain relative path"),
        (PacksWhatIsNotThere(), "what_it_publishes_is_fit", "is not there"),
        (PacksTheTrialItself(), "what_it_publishes_is_fit", "is not below its work directory"),
        (PacksALink(), "what_it_publishes_is_fit", "holds link, which is neither a file nor a directory"),
        (PacksOnce(), "publishing_again_is_the_same", "first it published ['archives/case-agent-1.txt'], then []"),
        (PacksMoreEachTime(), "publishing_again_is_the_same", "published something else as archives/x"),
        (PacksCases(), "marks_fit_the_scopes", "of a case nothing is published"),
        (RedactsNothing(), "known_secrets_are_taken_out", "it publishes a known value: agentix-check/"),
        (RedactsPlainTextOnly(), "known_secrets_are_taken_out", "agentix-check/encoded.txt"),
        (RedactsFilesAndNoNames(), "known_secrets_are_taken_out", "it publishes a known value"),
        (RedactsAndCountsNothing(), "known_secrets_are_taken_out", "its outcome counts nothing"),
        (RedactsAndPublishesMore(), "what_it_publishes_is_fit", "not trials/case-agent-1"),
        (RedactsRuns(), "marks_fit_the_scopes", "only a per-trial step can redact"),
        (RedactsAndPublishes(), "marks_fit_the_scopes", "both marks"),
    ],
)
async def test_a_faulty_one_fails_the_check_of_the_promise(plugin: object, check: str, said: str) -> None:
    results = await outcomes("step", plugin, StepCase(inputs={}, prepare_trial=with_files), only=[check])
    assert results[check].outcome == "failed"
    assert said in results[check].message
    assert "0123456789" not in results[check].message, "a known value is in no message"


async def test_what_publishes_sees_its_trial_in_the_tree_and_what_to_ship() -> None:
    seen: list[StepContext] = []

    class Looks(Packs):
        async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
            seen.append(ctx)
            return StepOutcome()

    await run_checks("step", Looks(), case=StepCase(inputs={}), only=["what_it_publishes_is_fit"])
    (ctx,) = seen
    assert ctx.trial_dir == ctx.run_dir / "trials" / "case-agent-1" == ctx.path
    assert ctx.secrets


class Driven:
    """Ships with a program."""

    scopes = frozenset({Scope.PER_EXPERIMENT})
    Inputs = Inputs
    host_env: tuple[str, ...] = ()

    async def ship(self, source: Path, inputs: Any, ctx: StepContext) -> Receipt:
        await run_tool(["true"], host_env=self.host_env)
        return self.receipt(source)

    def receipt(self, source: Path) -> Receipt:
        files = [source] if source.is_file() else [path for path in source.rglob("*") if path.is_file()]
        return Receipt(destination="store://place", files=len(files), bytes=sum(p.stat().st_size for p in files))


class ShowsAll(Driven):
    async def ship(self, source: Path, inputs: Any, ctx: StepContext) -> Receipt:
        await anyio.run_process(["true"])
        return self.receipt(source)


class RunsNothing(Driven):
    async def ship(self, source: Path, inputs: Any, ctx: StepContext) -> Receipt:
        return self.receipt(source)


@pytest.mark.parametrize(
    ("plugin", "tools", "outcome", "said"),
    [
        (Driven(), ("true",), "passed", ""),
        (ShowsAll(), ("true",), "failed", "true saw a variable that host_env does not name"),
        (RunsNothing(), ("true",), "failed", "it ran no true"),
        (Driven(), ("no-such-program",), "skipped", "there is no program no-such-program"),
        (Driven(), (), "skipped", "the case names no programs"),
    ],
)
async def test_what_the_programs_of_a_transport_see_is_looked_at(
    plugin: object, tools: tuple[str, ...], outcome: str, said: str
) -> None:
    name = "its_tools_see_no_other_variables"
    result = (await outcomes("transport", plugin, TransportCase(inputs={}, tools=tools), only=[name]))[name]
    assert result.outcome == outcome, result.message
    assert said in result.message
