"""What `agentix ship` does, and what it would do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio.to_thread

from agentix.api import AgentixError, StepContext, without_logins
from agentix.cli.api import ExperimentManifest, ExperimentWriter
from agentix.plugins.experiments.commands import CommandRunner
from agentix.plugins.experiments.engine.closing import Closing
from agentix.plugins.experiments.engine.closing_steps import closing_steps
from agentix.plugins.experiments.engine.live import LiveRun
from agentix.plugins.experiments.engine.outcome import Outcome
from agentix.plugins.experiments.engine.published_steps import PublishedSteps, end_of, with_end
from agentix.plugins.experiments.engine.units import run_context
from agentix.plugins.experiments.steps import ResolvedStep
from agentix.plugins.experiments.steps.transport_step import TransportStep


class Shipping:
    """Runs the steps of the whole run that publish, and the reports.

    Args:
        outcome: Where it notes in which state the run is then.
        writer: Has the manifest.
    """

    def __init__(self, outcome: Outcome, writer: ExperimentWriter) -> None:
        self._outcome = outcome
        self._writer = writer

    async def run(self, runner: CommandRunner, closing: Closing) -> str | None:
        """Do it, and say why not everything was done."""
        why = await closing.publish(runner)
        if self._writer.manifest.incomplete is not None:
            self._outcome.rest = "stopped"
        return why


class Preview:
    """Makes everything that would be shipped, and tells what that is; nothing is sent, and no ending is kept.

    Args:
        live: The run.
        manifest: As it is.
    """

    def __init__(self, live: LiveRun, manifest: ExperimentManifest) -> None:
        self.layout = live.writer.layout
        self.manifest = manifest
        """With how the steps have ended that make what is shipped."""
        self.shown: list[dict[str, Any]] = []
        """What would go, for programs."""
        self._publication = live.publication
        self._board = live.board
        self._say = live.display.say
        self._all = closing_steps(live.parts)
        self._steps = PublishedSteps(
            live.publication, parts=live.parts, run=self, steps=self._all, board=live.board, say=self._say
        )

    async def run(self, runner: CommandRunner, closing: Closing) -> str | None:
        """Do it, and say why not everything could be told."""
        for step in self._all:
            if not step.publishes:
                continue
            self._board.doing = step.label
            why = await (self._show(step, runner) if step.ships else self._make(step, runner))
            if why is not None:
                why = f"{step.label}: {why}"
                self._say(why)
                return why
        return None

    async def _make(self, step: ResolvedStep, runner: CommandRunner) -> str | None:
        end = end_of(step, await self._steps.run(step, self._context(step), runner))
        self.manifest = with_end(self.manifest, end, self._all)
        if not (end.ok or end.warned):
            return end.message
        self._say(f"{step.label}: {end.message}")
        return None

    async def _show(self, step: ResolvedStep, runner: CommandRunner) -> str | None:
        publication, ctx = self._publication, self._context(step)
        try:
            found = await self._steps.whole(runner)
            ctx = publication.of_run(ctx)
            shipment = await self._steps.shipment(step, ctx, found)
            dest = await anyio.to_thread.run_sync(_destination, step, replace(ctx, path=shipment.path))
        except AgentixError as error:
            return str(error)
        except OSError as error:
            return f"{error.filename}: {error.strerror}"
        place = str(shipment.path.relative_to(publication.staging.root))
        self.shown.append(
            {
                "step": step.label,
                "with": step.plugin,
                "path": place,
                "files": shipment.files,
                "bytes": shipment.bytes,
                "destination": dest,
                "trials": found.published,
            }
        )
        to = f" to {dest}" if dest else ""
        self._say(f"{step.label}: would ship {shipment.told(publication.staging.root)} with {step.plugin}{to}")
        if found.withheld and len(self.shown) == 1:
            for line in (found.withheld.line, *found.withheld.reasons()):
                self._say(line)
        return None

    def _context(self, step: ResolvedStep) -> StepContext:
        return run_context(
            step,
            self.manifest.model_dump(mode="json"),
            run_id=self._board.run_id,
            run_dir=self.layout.root,
            experiment=self._board.experiment,
            incomplete=None,
            secrets=self._publication.secrets,
            say=self._say,
        )


def _destination(step: ResolvedStep, ctx: StepContext) -> str | None:
    """Where it goes: what the transport tells, else what an input `dest` says, as it does by convention."""
    inputs = step.inputs(ctx)
    found = step.step.destination(ctx, inputs) if isinstance(step.step, TransportStep) else None
    if found is None:
        found = inputs.get("dest") if isinstance(inputs, dict) else getattr(inputs, "dest", None)
    return ctx.secrets.text(without_logins(found)) if isinstance(found, str) else None
