"""The steps of the whole run, and the report on every way out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from agentix.cli.api import StepEnd, log, plural
from agentix.plugins.experiments.commands import CommandRunner
from agentix.plugins.experiments.engine.closing_steps import closing_steps, left_to_do
from agentix.plugins.experiments.engine.live import LiveRun
from agentix.plugins.experiments.engine.published_steps import PublishedSteps, end_of, with_end
from agentix.plugins.experiments.engine.units import run_context
from agentix.plugins.experiments.steps import ResolvedStep, StepResult


class Closing:
    """Runs the steps of the whole run.

    Args:
        live: The run.
    """

    def __init__(self, live: LiveRun) -> None:
        self._live = live
        self._steps = closing_steps(live.parts)
        self._writer = live.writer
        self._board = live.board
        self._published = PublishedSteps(
            live.publication, parts=live.parts, run=live.writer, steps=self._steps, board=live.board, say=self._say
        )

    async def run(self, runner: CommandRunner) -> str | None:
        """Run what is left of the steps, one after the other.

        Returns:
            Why the run did not complete, where a step says so.
        """
        todo = left_to_do(self._steps, self._writer.manifest)
        if any(step.publishes for step in todo):
            again = await self._published.out_of_date(runner)
            todo = tuple(step for step in self._steps if step in todo or step in again)
        return await self._run(todo, runner, told=True)

    async def publish(self, runner: CommandRunner) -> str | None:
        """Run every step that publishes once more, whatever has become of it before, and then the reports.

        Returns:
            Why the run did not complete, where a step says so.
        """
        again = tuple(step for step in self._steps if step.publishes)
        labels = {step.label for step in again}
        manifest = self._writer.manifest
        others = tuple(end for end in manifest.ended if end.step not in labels)
        self._writer.update(manifest.model_copy(update={"ended": others}))
        why = await self._run(again, runner)
        if why is not None:
            return why
        if (why := self._lacking()) is not None:
            await self.report(runner, incomplete=self._writer.manifest.incomplete or why)
            return None
        if self._writer.manifest.incomplete is not None:
            self._writer.update(self._writer.manifest.model_copy(update={"incomplete": None}))
        return await self._run(tuple(step for step in self._steps if step.reports), runner)

    def _lacking(self) -> str | None:
        """What a run lacks of which everything was shipped that there is."""
        lacking = self._writer.manifest.planned - len(self._board.recorded)
        if lacking > 0:
            return f"{plural(lacking, 'trial')} without a result"
        left = [s.label for s in left_to_do(self._steps, self._writer.manifest) if not s.reports]
        return f"{', '.join(left)} not done" if left else None

    async def _run(self, todo: Sequence[ResolvedStep], runner: CommandRunner, *, told: bool = False) -> str | None:
        """Run them; with `told`, say of each that publishes what it did, which `agentix ship` says at its end."""
        waiting, looked = deque(todo), set[str]()
        while waiting:
            step = waiting.popleft()
            if step.ships and step.key not in looked:
                looked.add(step.key)
                if lost := await self._published.lost_before(step, runner):
                    waiting.extendleft((step, *reversed(lost)))
                    continue
            result = await self._step(step, runner, incomplete=None, told=told)
            if result.stops:
                skipped = tuple(waiting)
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
                end = StepEnd(
                    step=step.label, fingerprint=step.fingerprint(), ok=True, message=f"left out after {after.label}"
                )
                self._writer.update(with_end(self._writer.manifest, end, self._steps))

    async def _step(
        self, step: ResolvedStep, runner: CommandRunner, *, incomplete: str | None, told: bool = False
    ) -> StepResult:
        self._board.doing = step.label
        ctx = run_context(
            step,
            self._writer.manifest.model_dump(mode="json"),
            run_id=self._board.run_id,
            run_dir=self._writer.layout.root,
            experiment=self._board.experiment,
            incomplete=incomplete,
            secrets=self._live.publication.secrets,
            say=self._said(step),
        )
        published = self._published
        ran = await (published.run if step.publishes else published.run_other)(step, ctx, runner)
        result = ran.result
        self._board.doing = ""
        bad = result.verdict != "passed"
        log.log(30 if bad else 20, "step %s: %s %s", step.label, result.verdict, result.message)
        if bad and (told or not step.publishes):
            self._live.display.say(f"step {step.label}: {result.message}")
        elif result.message and (told or not step.publishes):
            self._live.display.say(f"{step.label}: {result.message}")
        notes = self._live.hooks.call(
            "agentix_step_finished",
            scope="per_experiment",
            step=step.label,
            unit=self._board.run_id,
            verdict=result.verdict,
            message=result.message,
        )
        self._live.told(notes)
        if incomplete is None:
            end = end_of(step, ran)
            self._writer.update(with_end(self._writer.manifest, end, self._steps))
        return result

    def _said(self, step: ResolvedStep) -> Callable[[str], None]:
        name = f"{step.label}: "

        def say(text: str) -> None:
            self._say(text if text.startswith(name) else f"{name}{text}")

        return say

    def _say(self, text: str) -> None:
        self._live.display.say(text)
        log.info("step %s", text)
