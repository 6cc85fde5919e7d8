"""Putting the staging tree together: every trial that may be published, and nothing that may not."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePath, PurePosixPath
from typing import Any
from uuid import uuid4

import anyio
import anyio.to_thread
from pydantic import ValidationError

from agentix.api import RUN_NAMES, FailureCode, Record, Run, load_run
from agentix.cli.api import ExperimentManifest
from agentix.plugins.experiments.publishing.cleaning import Cleaner, without_keys
from agentix.plugins.experiments.publishing.places import TRIALS
from agentix.plugins.experiments.publishing.staging import Staging
from agentix.plugins.experiments.publishing.trees import remove
from agentix.plugins.experiments.publishing.withheld import Withheld, why_not

_AT_ONCE = 500
"""Trials that are looked at before others get their turn."""
_MANIFEST, _RESULTS, _FILE = "manifest.json", "results.jsonl", "experiment.yaml"

Restage = Callable[[Record], Awaitable[str | None]]
"""Redacts a trial and makes what its steps publish; says why that failed."""


@dataclass
class Assembled:
    """What the tree holds."""

    published: int = 0
    """Trials."""
    withheld: Withheld = field(default_factory=Withheld)
    changed: bool = False
    """Whether other trials are in it than before, or others of their files."""
    made_of: str = ""
    """Tells these trials and their files from any others, those of an earlier session too."""


@dataclass(frozen=True, kw_only=True)
class Assembly:
    """How the tree is put together.

    Args:
        staging: The tree.
        cleaner: Takes secrets out of records and of files of the run as a whole.
        by: Fingerprint of the step that redacts trials.
        restage: Redacts a trial that is missing or out of date.
        keys: By model, why its key is not known, so that its trials cannot be redacted.
        failed: By trial, why it could not be redacted in this session; such a one is not tried again.
        reports: Files at the top of the run's directory that are published too, where they are there.
        width: How many are redacted at once.
        say: Told what takes time.
    """

    staging: Staging
    cleaner: Cleaner
    by: str
    restage: Restage
    keys: Mapping[str, str]
    failed: dict[str, str]
    reports: frozenset[str]
    width: int
    say: Callable[[str], None]

    async def run(self, manifest: ExperimentManifest) -> Assembled:
        """Put it together.

        Raises:
            OSError: The disk did not take it; what there is of the tree is not to be shipped.
        """
        found = Assembled()
        await self._redact(found)
        wanted: set[str] = set()
        new = self.staging.room / uuid4().hex
        await _in_turns(self._write_records(new, found, wanted))
        steps = (
            lambda: self._drop_others(wanted, found),
            lambda: new.replace(self.staging.root / _RESULTS),
            lambda: self._write_run(manifest),
            self._place,
        )
        for step in steps:
            await anyio.to_thread.run_sync(step)
        found.made_of = self.staging.made_of()
        return found

    async def _redact(self, found: Assembled) -> None:
        """Redact what is missing or out of date; of all trials only a few are in memory at once."""
        records = iter(load_run(self.staging.run_dir))

        def some() -> list[Record] | None:
            batch = list(islice(records, _AT_ONCE))
            return [record for record in batch if self._is_outdated(record)] if batch else None

        while (waiting := await anyio.to_thread.run_sync(some)) is not None:
            if waiting and not found.changed:
                found.changed = True
                self.say("redacting what was not redacted yet, or is out of date")
            await self._redact_each(waiting)

    async def _redact_each(self, waiting: Sequence[Record]) -> None:
        records = iter(waiting)

        async def work() -> None:
            for record in records:
                why = await self.restage(record)
                if why is not None:
                    self.failed[record.trial_id] = why

        async with anyio.create_task_group() as tasks:
            for _ in range(min(self.width, len(waiting))):
                tasks.start_soon(work, name="agentix.redact")

    def _is_outdated(self, record: Record) -> bool:
        if record.dropped or why_not(record, keys=self.keys, failed=self.failed) is not None:
            return False
        staging = self.staging
        places = staging.places_of_trial(record.trial_id)
        return not (staging.is_fresh(record.trial_id, by=self.by) and all(map(staging.is_whole, places)))

    def _write_records(self, target: Path, found: Assembled, wanted: set[str]) -> Iterator[None]:
        with target.open("wb") as file:
            for record in load_run(self.staging.run_dir):
                yield
                if record.dropped:
                    found.withheld.dropped += 1
                elif (why := why_not(record, keys=self.keys, failed=self.failed)) is not None:
                    found.withheld.unredacted[record.trial_id] = why
                else:
                    counts = self.staging.counts(record.trial_id)
                    file.write(self.cleaner.record(_redacted(self._as_staged(record), counts)).to_line())
                    wanted.add(record.trial_id)
        found.published = len(wanted)

    def _as_staged(self, record: Record) -> Record:
        """The record; where secrets were known that are not known now, as it was redacted then."""
        if not self.staging.knew_more(record.trial_id):
            return record
        staged = Run(self.staging.root).trial(record.trial_id).record
        return staged.model_copy(update={"step_failures": record.step_failures})

    def _drop_others(self, wanted: set[str], found: Assembled) -> None:
        """Remove what there is of trials that are not published."""
        staging = self.staging
        home = staging.root / TRIALS
        if home.is_symlink() or not home.is_dir():
            remove(home, trash=staging.room)
            home.mkdir()
        there = {entry.name for entry in os.scandir(home)}
        for name in (there | staging.known_trials) - wanted:
            found.changed = True
            staging.withdraw(name)

    def _write_run(self, manifest: ExperimentManifest) -> None:
        """Write what there is of the run as a whole."""
        staging = self.staging
        data = self.cleaner.data(_for_others(manifest))
        try:
            clean = ExperimentManifest.model_validate(data)
        except ValidationError:
            raise without_keys("the run's manifest") from None
        new = staging.room / uuid4().hex
        new.write_bytes(clean.to_bytes())
        new.replace(staging.root / _MANIFEST)
        tops = {PurePosixPath(place).parts[0] for place in staging.ledger.places}
        reports = {name for name in self.reports - RUN_NAMES - tops if _is_plain(staging.run_dir / name)}
        for name in (_FILE, *sorted(reports)):
            if (why := self.cleaner.file(staging.run_dir / name, new)) is not None:
                self.say(f"{name} is not published: {why}")
                remove(staging.root / name, trash=staging.room)
            else:
                new.replace(staging.root / name)
        for name in (_MANIFEST, _FILE, *reports):
            staging.traces.remember(staging.run_dir / name)
        kept = {_MANIFEST, _RESULTS, _FILE, TRIALS, *reports, *tops}
        for entry in os.scandir(staging.root):
            if entry.name not in kept or (entry.is_symlink() and entry.name not in tops):
                remove(Path(entry.path), trash=staging.room)

    def _place(self) -> None:
        """Have everything that was published besides in the tree, whole, and nothing else beside it."""
        staging = self.staging
        for place in [place for place in staging.ledger.places if not staging.is_whole(place)]:
            staging.take(place)
        places = set(staging.ledger.places)
        tops = {PurePosixPath(place).parts[0] for place in places}
        above = {str(parent) for place in places for parent in PurePosixPath(place).parents}
        for top in tops:
            self._sweep(top, places, above)
        for place in places:
            staging.ensure_linked(place)

    def _sweep(self, here: str, places: set[str], above: set[str]) -> None:
        path = self.staging.root / here
        if here in places or not (path.is_symlink() or path.exists()):
            return
        if here not in above or path.is_symlink() or not path.is_dir():
            remove(path, trash=self.staging.room)
            return
        for entry in list(os.scandir(path)):
            self._sweep(f"{here}/{entry.name}", places, above)


async def _in_turns(work: Iterator[None]) -> None:
    """Do something long in a thread, piece by piece, so that it can be cancelled in between."""

    def some() -> bool:
        return sum(1 for _ in islice(work, _AT_ONCE)) == _AT_ONCE

    while await anyio.to_thread.run_sync(some):
        pass


def _redacted(record: Record, counts: dict[str, int]) -> Record:
    """The record of a trial as it was redacted last, which may have been after its line was written."""
    failures = tuple(f for f in record.step_failures if f.code is not FailureCode.REDACT_FAILED)
    if counts == record.redaction and failures == record.step_failures:
        return record
    return record.model_copy(update={"redaction": counts, "step_failures": failures})


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def withheld_records(
    staging: Staging, cleaner: Cleaner, keys: Mapping[str, str]
) -> Callable[[], Iterable[Mapping[str, Any]]]:
    """The redacted records of dropped trials, read whenever they are asked for."""

    def read() -> Iterator[Mapping[str, Any]]:
        for record in load_run(staging.run_dir):
            if record.dropped and why_not(record, keys=keys, failed={}) is None:
                yield cleaner.record(record).to_data()

    return read


def _for_others(manifest: ExperimentManifest) -> dict[str, Any]:
    """What a manifest tells those who do not have this machine."""
    data = manifest.model_dump(mode="json", exclude={"sessions"})
    for case in data["cases"]:
        if case["source"] == "local":
            case["pin"].pop("path", None)
    data["file"] = PurePath(data["file"]).name
    return data
