"""One step on one trial that has ended, with what it publishes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import anyio.to_thread

from agentix.api import AgentixError, Case, Record, ShipRefused, StepContext
from agentix.cli.api import ExperimentManifest, Layout, log
from agentix.plugins.experiments.commands import CommandRunner
from agentix.plugins.experiments.engine.publication import Publication
from agentix.plugins.experiments.engine.shipment_lines import line_of
from agentix.plugins.experiments.engine.trial_views import seen_by
from agentix.plugins.experiments.engine.units import STEPS_DIR, trial_context
from agentix.plugins.experiments.engine.work import UNCLEAN
from agentix.plugins.experiments.publishing import Shipment, nearest
from agentix.plugins.experiments.steps import ResolvedStep, StepResult, failed, run_step


class TrialSteps:
    """Runs steps on trials.

    Args:
        publication: What of the run may leave this machine.
        runner: Runs configured commands.
        layout: Of the run's directory.
        run_id: Of the run.
        experiment: Its name.
    """

    def __init__(
        self, publication: Publication, *, runner: CommandRunner, layout: Layout, run_id: str, experiment: str
    ) -> None:
        self._publication = publication
        self._runner = runner
        self._layout = layout
        self._run_id = run_id
        self._experiment = experiment

    async def run(
        self,
        step: ResolvedStep,
        record: Record,
        case: Case | None,
        *,
        made: list[str],
        say: Callable[[str], None],
    ) -> StepResult | None:
        """Run one step.

        Args:
            step: The step.
            record: The trial's record so far.
            case: The trial's case.
            made: What the step before it has published of the trial; becomes what this one has, if anything.
            say: Tells a line.

        Returns:
            How it ended; `None` where it is left out, because nothing of the trial is published.

        Raises:
            OSError: Its directory cannot be made.
        """
        publication, trial_id = self._publication, record.trial_id
        if step.publishes and not publication.is_staged(trial_id):
            return None
        ctx = trial_context(
            step,
            record,
            case,
            run_id=self._run_id,
            run_dir=self._layout.root,
            trial_dir=self._layout.trial(trial_id),
            experiment=self._experiment,
            secrets=publication.secrets,
            say=say,
        )
        ctx, shipment = replace(ctx, patterns=publication.patterns), None
        try:
            if step.publishes:
                ctx = publication.of_trial(ctx, record)
            if step.redacts:
                base = await self._before_redacting(record)
                ctx = ctx if base is None else replace(ctx, trial_dir=base)
            if step.ships:
                default = nearest(made) or f"trials/{trial_id}"
                shipment = await publication.shipment(step, ctx, default=default, trial_id=trial_id)
                ctx = replace(ctx, path=shipment.path)
        except (AgentixError, OSError) as error:
            return self._ended(step, record, failed(step, error, ctx), ctx, shipment)
        try:
            async with seen_by(step, ctx, staging=publication.staging, trial_id=trial_id) as seen:
                result = await run_step(step, seen, runner=self._runner)
        except OSError as error:
            result = failed(step, error, ctx)
        try:
            if step.redacts and result.outcome is not None and any(n.endswith(UNCLEAN) for n in record.notes):
                await anyio.to_thread.run_sync(_leave_out_unclean, record, tuple(result.outcome.publish.values()))
            places = await publication.accept(step, ctx, result, trial_id=trial_id)
        except (AgentixError, OSError) as error:
            result = failed(step, error, ctx)
        else:
            made[:] = places or made
        return self._ended(step, record, result, ctx, shipment)

    async def _before_redacting(self, record: Record) -> Path | None:
        staging = self._publication.staging
        why = await self._publication.why_no_key(record.llm_spec, detail=record.failure_detail)
        base = await anyio.to_thread.run_sync(staging.base, record.trial_id) if why is None else None
        if base is None and staging.knows(record.trial_id):
            # It was made of something else than what is redacted now.
            await anyio.to_thread.run_sync(staging.withdraw, record.trial_id)
        if why is not None:
            raise ShipRefused(why)
        return base

    def _ended(
        self, step: ResolvedStep, record: Record, result: StepResult, ctx: StepContext, shipment: Shipment | None
    ) -> StepResult:
        if step.ships:
            root = self._publication.staging.root
            self._publication.log.add(line_of(step, ctx, result, shipment=shipment, root=root, record=record))
        if step.redacts:
            if result.verdict == "passed":
                self._publication.failed.pop(record.trial_id, None)
            else:
                self._publication.failed[record.trial_id] = result.message
        return result

    async def restage(self, steps: tuple[ResolvedStep, ...], record: Record, case: Case | None) -> str | None:
        """Redact a trial now, and make again what its steps publish, without shipping it.

        Returns:
            Why it could not be redacted.
        """
        made: list[str] = []
        for step in steps:
            if not step.redacts and (not step.publishes or step.ships):
                continue
            try:
                result = await self.run(step, record, case, made=made, say=_quiet(record.trial_id))
            except OSError as error:
                return f"its directory could not be made: {error.strerror}"
            if result is not None and result.verdict != "passed":
                if step.redacts:
                    return result.message
                log.warning("%s step %s: %s %s", record.trial_id, step.label, result.verdict, result.message)
        await self.clean(record.trial_id)
        return None

    async def clean(self, trial_id: str) -> None:
        """Take keys out of what steps have left of a trial."""
        masks = self._publication.secrets
        if masks:
            place: Path = self._layout.trial(trial_id) / STEPS_DIR
            await anyio.to_thread.run_sync(masks.clean_files, place)


def _leave_out_unclean(record: Record, copies: Sequence[Path]) -> None:
    """Publish no file that held a key when the trial ended and could not be cleaned: the key may be another one now."""
    for note in record.notes:
        name = note.removesuffix(UNCLEAN)
        for copy in copies if name != note and ".." not in Path(name).parts else ():
            (copy / name).unlink(missing_ok=True)


def cases_of(manifest: ExperimentManifest) -> dict[str, Case]:
    """The cases by label as the manifest knows them, which is not what they are run from."""
    return {
        use.label: Case(
            name=use.name,
            label=use.label,
            source=use.source,
            dataset=use.dataset.ref,
            instance={"instance_id": use.name},
            sha256=use.sha256,
            pin=dict(use.pin),
        )
        for use in manifest.cases
    }


def _quiet(trial_id: str) -> Callable[[str], None]:
    def say(text: str) -> None:
        log.info("%s: %s", trial_id, text)

    return say
