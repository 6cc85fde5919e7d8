"""The steps of the whole run, and the report on every way out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentix.api import Hooks, Scope
from agentix.cli.api import ExperimentManifest, ExperimentWriter, StepEnd, log
from agentix.plugins.experiments.commands import CommandRunner
from agentix.plugins.experiments.documents import StepSpec
from agentix.plugins.experiments.engine.parts import Parts
from agentix.plugins.experiments.engine.units import run_context
from agentix.plugins.experiments.progress import Board, Display
from agentix.plugins.experiments.steps import ResolvedStep, StepResult, resolve_step, run_step

REPORT = "report"


def closing_steps(parts: Parts) -> tuple[ResolvedStep, ...]:
    """The steps of the file, with a report behind them where it declares none."""
    steps = parts.pipeline.per_experiment
    if any(step.reports for step in steps):
        return steps
    return (*steps, resolve_step(StepSpec(uses=REPORT), Scope.PER_EXPERIMENT, parts.commands))


def left_to_do(steps: Sequence[ResolvedStep], manifest: ExperimentManifest | None) -> tuple[ResolvedStep, ...]:
    """The steps that have not run since the last result, or have failed, or are other ones now."""
    if manifest is None:
        return tuple(steps)
    done = {(end.step, end.fingerprint) for end in manifest.ended if end.ok or end.warned}
    return tuple(step for step in steps if (step.label, step.fingerprint()) not in done)


class Closing:
    """Runs the steps of the whole run.

    Args:
        parts: What the run is made of.
        writer: Keeps how each ended.
        board: Told what goes on.
        display: Shows it.
        hooks: Told about it.
    """

    def __init__(self, parts: Parts, *, writer: ExperimentWriter, board: Board, display: Display, hooks: Hooks) -> None:
        self._parts = parts
        self._steps = closing_steps(parts)
        self._writer = writer
        self._board = board
        self._display = display
        self._hooks = hooks

    async def run(self, runner: CommandRunner) -> str | None:
        """Run what is left of the steps, one after the other.

        Returns:
            Why the run did not complete, where a step says so.
        """
        todo = left_to_do(self._steps, self._writer.manifest)
        for number, step in enumerate(todo):
            result = await self._step(step, runner, incomplete=None)
            if result.stops:
                skipped = todo[number + 1 :]
                if result.reaction == "skip":
                    self._leave_out(skipped, after=step)
                    reports = tuple(s for s in skipped if s.reports)
                    for report in reports:
                        await self._step(report, runner, incomplete=None)
                    return None
                return f"{step.label}: {result.message}"
        return None

    async def report(self, runner: CommandRunner, *, incomplete: str) -> None:
        """Write the reports of a run that did not complete; when it has, they are written again."""
        reports = {step.label for step in self._steps if step.reports}
        manifest = self._writer.manifest
        others = tuple(end for end in manifest.ended if end.step not in reports)
        self._writer.update(manifest.model_copy(update={"ended": others, "incomplete": incomplete}))
        for step in self._steps:
            if step.reports:
                await self._step(step, runner, incomplete=incomplete)

    def _leave_out(self, steps: Sequence[ResolvedStep], *, after: ResolvedStep) -> None:
        for step in steps:
            if not step.reports:
                self._keep(step, ok=True, message=f"left out after {after.label}")

    async def _step(self, step: ResolvedStep, runner: CommandRunner, *, incomplete: str | None) -> StepResult:
        self._board.doing = step.label
        ctx = run_context(
            step,
            self._writer.manifest.model_dump(mode="json"),
            run_id=self._board.run_id,
            run_dir=self._writer.layout.root,
            experiment=self._board.experiment,
            incomplete=incomplete,
            say=self._said(step),
        )
        result = await run_step(step, ctx, runner=runner)
        self._board.doing = ""
        bad = result.verdict != "passed"
        log.log(30 if bad else 20, "step %s: %s %s", step.label, result.verdict, result.message)
        if bad:
            self._display.say(f"step {step.label}: {result.message}")
        for note in self._hooks.call(
            "agentix_step_finished",
            scope="per_experiment",
            step=step.label,
            unit=self._board.run_id,
            verdict=result.verdict,
            message=result.message,
        ):
            log.warning("%s", note)
        if incomplete is None:
            ok = result.reaction in ("go_on", "drop", "skip")
            self._keep(step, ok=ok, message=result.message, warned=result.reaction == "warn")
        return result

    def _said(self, step: ResolvedStep) -> Callable[[str], None]:
        def say(text: str) -> None:
            self._display.say(f"{step.label}: {text}")
            log.info("step %s: %s", step.label, text)

        return say

    def _keep(self, step: ResolvedStep, *, ok: bool, message: str, warned: bool = False) -> None:
        manifest = self._writer.manifest
        end = StepEnd(step=step.label, fingerprint=step.fingerprint(), ok=ok, message=message[:2000], warned=warned)
        others = tuple(old for old in manifest.ended if old.step != step.label)
        self._writer.update(manifest.model_copy(update={"ended": (*others, end)}))
