"""What of a run may leave this machine, as its steps get to see it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Self

import anyio.from_thread
import anyio.to_thread

from agentix.api import EnvFailed, Record, RedactionRules, ShipRefused, StepContext, UsageError
from agentix.cli.api import ExperimentManifest, listed
from agentix.plugins.experiments.engine.models import NEEDS_KEY
from agentix.plugins.experiments.engine.parts import Parts
from agentix.plugins.experiments.progress import SHIPMENTS, ShipmentLog
from agentix.plugins.experiments.publishing import (
    NO_KEY,
    STAGING,
    Assembled,
    Assembly,
    Cleaner,
    Restage,
    Shipment,
    Staging,
    Withheld,
    look_over,
    look_up,
    withheld_records,
)
from agentix.plugins.experiments.steps import ResolvedStep, StepResult, digest


class Publication:
    """Holds the staging tree of a run, from when it is first needed; use it as a context manager.

    Args:
        parts: What the run is made of.
        run_dir: Its directory.
        reports: Files at the top of it that are published too.
        patterns: What plugins want taken out of everything.
    """

    def __init__(
        self,
        parts: Parts,
        *,
        run_dir: Path,
        reports: Iterable[str] = (),
        patterns: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.failed: dict[str, str] = {}
        """By trial, why it could not be redacted in this session."""
        self.keys: dict[str, str] = {}
        """By model, why its key is not known."""
        self.had_keys: frozenset[str] = frozenset()
        """The models that had a key when the run ran."""
        self.withheld = Withheld()
        """The trials that were not published when the tree was put together last."""
        self.redact: ResolvedStep | None = parts.pipeline.redact
        self.secrets = parts.keys.masks
        self.patterns = patterns
        self.run_dir = run_dir.absolute()
        self._parts = parts
        self._reports = frozenset(reports)
        self._open = ExitStack()
        self.log = ShipmentLog(self.run_dir / SHIPMENTS)
        self._open.callback(self.log.close)
        self._staging: Staging | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *of_error: object) -> None:
        self._open.close()

    @property
    def staging(self) -> Staging:
        """The tree.

        Raises:
            OSError: It cannot be made.
        """
        if self._staging is None:
            steps = [step.key for step in self._parts.pipeline.per_experiment if step.publishes]
            self._staging = self._open.enter_context(Staging(self.run_dir, secrets=self.secrets, steps=steps))
        return self._staging

    @cached_property
    def cleaner(self) -> Cleaner:
        """Takes secrets out of records, and of files of the run as a whole."""
        rules = RedactionRules() if self.redact is None else _rules(self.redact)
        return Cleaner(self.secrets, rules=replace(rules, patterns={**self.patterns, **rules.patterns}))

    @cached_property
    def redacts_as(self) -> str:
        """Fingerprint of the step that redacts, and of what plugins want."""
        assert self.redact is not None
        return digest([self.redact.fingerprint(), dict(self.patterns)])

    def forget(self, trial_ids: Iterable[str]) -> None:
        """Remove everything of trials, such as those that are run again."""
        if self.redact is not None or (self.run_dir / STAGING).exists():
            for trial_id in filter(self.staging.knows, trial_ids):
                self.staging.withdraw(trial_id)

    def is_staged(self, trial_id: str) -> bool:
        """Whether there are redacted files of a trial."""
        return self.redact is not None and trial_id in self.staging.ledger.trials

    async def why_no_key(self, llm_spec: str | None, *, detail: str | None = None) -> str | None:
        """Why the key of a model is not known, so that it cannot be looked for in what its trials left.

        Args:
            llm_spec: Name of the model.
            detail: The trial's failure detail; where the trial never had a key, none need be known.
        """
        if llm_spec is None or detail == NO_KEY:
            return None
        spec = self._parts.submission.llm_specs.get(llm_spec)
        if spec is None:
            return f"its key is not known: the file has no llm_spec {llm_spec}"
        if llm_spec in self.had_keys and spec.api_key_env is None and spec.api_key_cmd is None:
            return f"its key is not known: {llm_spec} had one when the trial ran, and in the file it has none"
        if self._parts.keys.known(spec) is None:
            if llm_spec in self.keys:
                return self.keys[llm_spec]
            try:
                await self._parts.keys.get(spec)
            except EnvFailed as error:
                hint = f" {error.hint}" if error.hint else ""
                return self.keys.setdefault(llm_spec, f"its key is not known: {error.message}.{hint}")
        self.keys.pop(llm_spec, None)
        return None

    async def assemble(
        self,
        manifest: ExperimentManifest,
        restage: Restage,
        *,
        say: Callable[[str], None],
        stale: Collection[str] = (),
    ) -> Assembled:
        """Put the whole tree together.

        Args:
            manifest: What is published of it.
            restage: Redacts a trial anew.
            say: Tells the user.
            stale: Reports that are not true any more.

        Raises:
            OSError: The disk did not take it.
        """
        self.had_keys = frozenset(name for name, spec in manifest.llm_specs.items() if spec.get(NEEDS_KEY))
        for name in dict.fromkeys(row.llm_spec for row in manifest.matrix):
            if (why := await self.why_no_key(name)) is not None and name is not None:
                self.keys[name] = why
        assembly = Assembly(
            staging=self.staging,
            cleaner=self.cleaner,
            by=self.redacts_as,
            restage=restage,
            keys=self.keys,
            failed=self.failed,
            reports=self._reports - frozenset(stale),
            width=self._parts.submission.experiment.pipeline.concurrency,
            say=say,
        )
        found = await assembly.run(manifest)
        self.withheld = found.withheld
        return found

    def of_trial(self, ctx: StepContext, record: Record) -> StepContext:
        """A trial as a step sees it that publishes."""
        return replace(
            ctx,
            run_dir=self.staging.root,
            trial_dir=self.staging.trial(record.trial_id),
            subject=self.cleaner.record(record).to_data(),
        )

    def of_run(self, ctx: StepContext) -> StepContext:
        """The run as a step sees it that publishes."""
        withheld = withheld_records(self.staging, self.cleaner, self.keys)
        subject = self.cleaner.data({key: value for key, value in ctx.subject.items() if key != "sessions"})
        return replace(ctx, run_dir=self.staging.root, subject=subject, withheld=withheld)

    async def shipment(
        self, step: ResolvedStep, ctx: StepContext, *, default: str | None, trial_id: str | None = None
    ) -> Shipment:
        """What a step ships, after a last look at exactly that.

        Args:
            step: The step.
            ctx: Its unit.
            default: What goes where the file does not say; `None` for the whole tree.
            trial_id: The trial that it ships of, and of no other.

        Raises:
            ShipRefused: There is nothing, it holds a secret, or it is of other trials too.
        """
        place = step.source(ctx)
        if trial_id is not None and place is not None and not self.staging.is_of_trial(trial_id, place):
            raise ShipRefused(
                f"path {str(place)!r}: is not of this trial alone, and others may still be dropped",
                hint=f"Ship trials/{trial_id} or what its steps have published; or ship it per_experiment.",
            )
        found = await anyio.to_thread.run_sync(
            lambda: look_up(self.staging.root, None if place is None else str(place), default=default)
        )
        check = anyio.from_thread.check_cancelled
        await anyio.to_thread.run_sync(lambda: look_over(found.path, self.secrets, check=check))
        return found

    async def accept(
        self, step: ResolvedStep, ctx: StepContext, result: StepResult, *, trial_id: str | None = None
    ) -> tuple[str, ...]:
        """Take what a step has published.

        Returns:
            The places.

        Raises:
            AgentixError: It cannot be taken.
            OSError: The disk did not take it.
        """
        publish = {} if result.outcome is None or not result.outcome.ok else dict(result.outcome.publish)
        if step.redacts and result.outcome is not None and result.verdict == "passed":
            assert trial_id is not None
            counts, by = result.outcome.redaction, self.redacts_as
            await anyio.to_thread.run_sync(
                lambda: self.staging.accept_redacted(trial_id, publish, work_dir=ctx.work_dir, by=by, counts=counts)
            )
            return ()
        if not step.publishes:
            if publish:
                raise UsageError(
                    f"it has published {listed(tuple(publish))}, and does not say that it publishes",
                    hint="Only a step with `publishes = True` does, which sees redacted files only.",
                )
            return ()
        if result.verdict != "passed" or (trial_id is not None and not publish):
            return ()
        return await anyio.to_thread.run_sync(
            lambda: self.staging.accept(publish, work_dir=ctx.work_dir, trial_id=trial_id, step=step.key)
        )


def _rules(redact: ResolvedStep) -> RedactionRules:
    """What the step that redacts takes out of results, where it says so, which holds for records too."""
    rules = None
    if redact.step is not None:
        rules = getattr(redact.example_inputs(), "rules", None)
    return rules if isinstance(rules, RedactionRules) else RedactionRules()
