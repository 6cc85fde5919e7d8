"""Steps of the whole run, with what they publish and ship."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Protocol

from agentix.api import AgentixError, Record, RunError, ShipRefused, StepContext
from agentix.cli.api import ExperimentManifest, Layout, StepEnd
from agentix.plugins.experiments.commands import CommandRunner
from agentix.plugins.experiments.engine.parts import Parts
from agentix.plugins.experiments.engine.publication import Publication
from agentix.plugins.experiments.engine.report_places import report_places
from agentix.plugins.experiments.engine.shipment_lines import line_of
from agentix.plugins.experiments.engine.trial_steps import TrialSteps, cases_of
from agentix.plugins.experiments.progress import Board
from agentix.plugins.experiments.publishing import Assembled, Shipment, Withheld, nearest
from agentix.plugins.experiments.steps import ResolvedStep, StepResult, failed, run_step


class HasManifest(Protocol):
    """A run whose manifest is known."""

    @property
    def layout(self) -> Layout:
        """Where its files are."""
        ...

    @property
    def manifest(self) -> ExperimentManifest:
        """What it is, and how its steps have ended."""
        ...


@dataclass(frozen=True)
class Ran:
    """How a step of the whole run has ended."""

    result: StepResult
    published: tuple[str, ...] = ()
    """The places of what it has published."""
    withheld: int = 0
    """How many trials were no part of what it shipped."""
    made_of: str | None = None
    """Tells the trials that there were from any others."""


class PublishedSteps:
    """Runs steps that see the whole staging tree, which is put together before each of them.

    Args:
        publication: What of the run may leave this machine.
        parts: What the run is made of.
        run: Has the manifest.
        steps: All steps of the whole run.
        board: Told what goes on.
        say: Tells the user.
    """

    def __init__(
        self,
        publication: Publication,
        *,
        parts: Parts,
        run: HasManifest,
        steps: Sequence[ResolvedStep],
        board: Board,
        say: Callable[[str], None],
    ) -> None:
        self.assembled: Assembled | None = None
        """What the tree holds; `None` where something may have changed since it was put together."""
        self._publication = publication
        self._parts = parts
        self._run = run
        self._steps = steps
        self._board = board
        self._say = say
        self._told = ""

    async def out_of_date(self, runner: CommandRunner) -> tuple[ResolvedStep, ...]:
        """The steps of which what they published was made of something else than what is published now.

        Raises:
            RunError: The disk did not take what is published.
        """
        staging = self._publication.staging
        ends = self._ends()
        # Putting the tree together removes what is not whole.
        broken = [name for name, end in ends.items() if not all(map(staging.is_whole, end.published))]
        try:
            found = await self._assemble(runner)
        except OSError as error:
            root = self._run.layout.root
            raise RunError(f"{root}: what is published cannot be written: {error.strerror or error}") from error
        # It may have been put together like that by a session that came no further.
        broken += [name for name, end in ends.items() if end.made_of not in (None, found.made_of)]
        return tuple(s for s in self._steps if s.publishes and (found.changed or _name(s) in broken))

    async def lost_before(self, step: ResolvedStep, runner: CommandRunner) -> tuple[ResolvedStep, ...]:
        """The steps before one of which what they have published is gone, because something has written to it."""
        try:
            await self.whole(runner)
        except (AgentixError, OSError):
            # The step itself says so.
            return ()
        ends, whole = self._ends(), self._publication.staging.is_whole
        earlier = [s for s in self._steps[: self._steps.index(step)] if s.publishes and not s.ships]
        made = [(s, end) for s in earlier if (end := ends.get(_name(s))) is not None and end.ok]
        return tuple(s for s, end in made if not all(map(whole, end.published)))

    async def run(self, step: ResolvedStep, ctx: StepContext, runner: CommandRunner) -> Ran:
        """Run a step that publishes; what became of a shipment is kept."""
        ran, shipment = await self._run_step(step, ctx, runner)
        if step.ships:
            root = self._publication.staging.root
            line = line_of(step, ctx, ran.result, shipment=shipment, root=root, withheld=ran.withheld)
            self._publication.log.add(line)
        return ran

    async def _run_step(
        self, step: ResolvedStep, ctx: StepContext, runner: CommandRunner
    ) -> tuple[Ran, Shipment | None]:
        publication, withheld, shipment = self._publication, Withheld(), None
        try:
            found = await self.whole(runner)
            ctx = publication.of_run(ctx)
            if step.ships:
                withheld = found.withheld
                self.tell(step, withheld)
                shipment = await self.shipment(step, ctx, found)
                ctx = replace(ctx, path=shipment.path)
        except (AgentixError, OSError) as error:
            return Ran(failed(step, error, ctx)), shipment
        self.assembled = None
        result = await run_step(step, ctx, runner=runner)
        try:
            places = await publication.accept(step, ctx, result)
        except (AgentixError, OSError) as error:
            return Ran(failed(step, error, ctx)), shipment
        said = result.message
        if shipment is not None and not said:
            said = f"{shipment.told(publication.staging.root)} with {step.plugin}"
        if withheld:
            said = f"{said}; {withheld.line}"
        result = replace(result, message=said)
        return Ran(result, places, withheld.count, found.made_of), shipment

    async def run_other(self, step: ResolvedStep, ctx: StepContext, runner: CommandRunner) -> Ran:
        """Run a step that does not publish."""
        result = await run_step(step, ctx, runner=runner)
        self.assembled = None
        try:
            await self._publication.accept(step, ctx, result)
        except AgentixError as error:
            return Ran(failed(step, error, ctx))
        return Ran(result)

    async def shipment(self, step: ResolvedStep, ctx: StepContext, found: Assembled) -> Shipment:
        """What a step ships, after a last look at exactly that.

        Where every trial is withheld, that is what steps have made of the whole run: a dataset that lists them, say.

        Raises:
            ShipRefused: There is nothing, or it holds a secret.
        """
        default = self._default(step) if step.path is None else None
        place = default if step.path is None else step.source(ctx)
        if not found.published and (place is None or not self._publication.staging.is_of_steps(PurePosixPath(place))):
            why = found.withheld.line if found.withheld else "no trial has ended"
            raise ShipRefused("; ".join([f"there is nothing to ship: {why}", *found.withheld.reasons()]))
        return await self._publication.shipment(step, ctx, default=default)

    def _default(self, step: ResolvedStep) -> str | None:
        """What the nearest step before it that has published anything has.

        Raises:
            ShipRefused: That step has come to no good end, so that it is not known what it would have published.
        """
        ends = self._ends()
        for earlier in reversed(self._steps[: self._steps.index(step)]):
            if not earlier.publishes or earlier.ships:
                continue
            end = ends.get(_name(earlier))
            if end is None or not end.ok:
                why = "has not run" if end is None else f"has failed: {end.message}"
                raise ShipRefused(
                    f"{earlier.label}, whose result would be shipped, {why}",
                    hint="Name a `path` to ship something else.",
                )
            if end.published:
                return nearest(end.published)
        return None

    def _ends(self) -> dict[tuple[str, str], StepEnd]:
        return {(end.step, end.fingerprint): end for end in self._run.manifest.ended}

    def tell(self, step: ResolvedStep, withheld: Withheld) -> None:
        """Say once why trials are withheld that nobody has dropped; how many is a part of how the step ends."""
        lines = [*withheld.reasons()]
        if lines and self._told != (told := "\n".join(lines)):
            self._told = told
            for line in lines:
                self._say(f"{step.label}: {line}")

    async def whole(self, runner: CommandRunner) -> Assembled:
        """The tree, put together where it may not be what it should.

        Raises:
            OSError: The disk did not take it.
        """
        return self.assembled or await self._assemble(runner)

    async def _assemble(self, runner: CommandRunner) -> Assembled:
        publication, doing = self._publication, self._board.doing
        trials = TrialSteps(
            publication,
            runner=runner,
            layout=self._run.layout,
            run_id=self._board.run_id,
            experiment=self._board.experiment,
        )
        steps, manifest = self._parts.pipeline.per_trial, self._run.manifest
        cases = cases_of(manifest)

        async def restage(record: Record) -> str | None:
            return await trials.restage(steps, record, cases.get(record.case))

        self._board.doing = f"{doing} (staging)".lstrip()
        try:
            self.assembled = await publication.assemble(
                self._as_it_is(manifest), restage, say=self._say, stale=self._stale(manifest)
            )
        finally:
            self._board.doing = doing
        return self.assembled

    def _is_whole(self, manifest: ExperimentManifest) -> bool:
        return manifest.planned <= len(self._board.recorded)

    def _as_it_is(self, manifest: ExperimentManifest) -> ExperimentManifest:
        """What is published of a manifest: a shipment that failed before is no part of what the next one ships."""
        return manifest.model_copy(update={"incomplete": None}) if self._is_whole(manifest) else manifest

    def _stale(self, manifest: ExperimentManifest) -> frozenset[str]:
        """Reports that say of a run with all its results that it did not complete; its end writes them again."""
        if not self._is_whole(manifest):
            return frozenset()
        done = {(end.step, end.fingerprint) for end in manifest.ended if end.ok or end.warned}
        true, stale = set[str](), set[str]()
        for step in self._steps:
            if step.reports:
                places = report_places(step, run_dir=self._run.layout.root, experiment=self._board.experiment)
                (true if _name(step) in done else stale).update(places)
        return frozenset(stale - true)


def _name(step: ResolvedStep) -> tuple[str, str]:
    """What the manifest knows a step by."""
    return step.label, step.fingerprint()


def end_of(step: ResolvedStep, ran: Ran) -> StepEnd:
    """How a step has ended, as the manifest keeps it."""
    result = ran.result
    return StepEnd(
        step=step.label,
        fingerprint=step.fingerprint(),
        ok=result.reaction in ("go_on", "drop", "skip"),
        message=result.message[:2000],
        warned=result.reaction == "warn",
        published=ran.published,
        withheld=ran.withheld,
        made_of=ran.made_of,
    )


def with_end(manifest: ExperimentManifest, end: StepEnd, steps: Sequence[ResolvedStep]) -> ExperimentManifest:
    """The manifest with one more ending; several steps may have one label."""
    present = {_name(step) for step in steps} - {(end.step, end.fingerprint)}
    others = tuple(o for o in manifest.ended if o.step != end.step or (o.step, o.fingerprint) in present)
    return manifest.model_copy(update={"ended": (*others, end)})
