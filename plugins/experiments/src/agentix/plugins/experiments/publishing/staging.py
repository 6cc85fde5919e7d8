"""The staging tree of a run: what may leave this machine, and nothing else."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Self

from agentix.api import Secrets
from agentix.cli.api import TRIAL_FILE
from agentix.plugins.experiments.publishing.claims import check_free, left_in_the_way
from agentix.plugins.experiments.publishing.known import Known
from agentix.plugins.experiments.publishing.ledger import Ledger, Staged, is_of_step, of_step, of_trial
from agentix.plugins.experiments.publishing.places import TRIALS, NotPublished, check_publish, trial_place
from agentix.plugins.experiments.publishing.traces import Traces
from agentix.plugins.experiments.publishing.trees import clear, is_linked, link, put, remove, stamp_of

STAGING = ".staging"
BESIDE = ".publishing"
"""In the run's directory too: what the tree is made from, and is no part of it."""


class Staging:
    """Takes what steps publish, and takes it back.

    Use it as a context manager, by the process that holds the run's lock. Its methods block, and may be called from
    several threads, though not for one trial at once.

    Args:
        run_dir: The run's directory.
        secrets: What is known of secrets, which may become more.
        steps: The steps of the whole run that there are; what others have published, they may replace.
    """

    def __init__(self, run_dir: Path, *, secrets: Secrets, steps: Collection[str] | None = None) -> None:
        self.run_dir = run_dir
        self.root = run_dir / STAGING
        self.room = run_dir / BESIDE
        """For what is not whole yet, or is no more."""
        self.ledger = Ledger(self.room / "ledger.jsonl")
        self.traces = Traces(secrets, self.ledger)
        self._known = Known(secrets, self.ledger)
        self._owners = None if steps is None else frozenset(map(of_step, steps))
        self._lock = threading.Lock()
        self._made_of = (-1, "")

    def __enter__(self) -> Self:
        for directory in (self.root, self.root / TRIALS, self.room):
            if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
                directory.unlink()
            directory.mkdir(exist_ok=True)
        for left in self.room.iterdir():
            if left != self.ledger.path:
                clear(left)
        self.ledger.__enter__()
        self.traces.recall(self.run_dir)
        return self

    def __exit__(self, *of_error: object) -> None:
        self.ledger.__exit__(*of_error)

    def trial(self, trial_id: str) -> Path:
        """Where the redacted files of a trial are."""
        return self.root / trial_place(trial_id)

    def accept_redacted(
        self,
        trial_id: str,
        publish: Mapping[str, Path],
        *,
        work_dir: Path,
        by: str,
        counts: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Take what a step has redacted of a trial, in place of everything that there is of it.

        Args:
            trial_id: The trial.
            publish: As in the outcome of the step.
            work_dir: The step's.
            by: Fingerprint of the step.
            counts: How often each kind of secret was taken out.

        Raises:
            NotPublished: It cannot be taken; of the trial nothing is there then.
            OSError: The disk did not take it.
        """
        base = None if self.base(trial_id) is None else self.ledger.trials[trial_id]
        self.withdraw(trial_id)
        check_publish(publish, work_dir, trial_id=trial_id)
        source = publish[trial_place(trial_id)]
        if not source.is_dir():
            raise NotPublished(f"{source}: is no directory")
        mark, made_of = self._known.mark(), self._source(trial_id)
        if base is not None:
            counts = Counter(counts) + Counter(dict(base.counts))
            mark = self._known.with_all_of(base.mark)
        tree = stamp_of(source)
        put(source, self.trial(trial_id), trash=self.room)
        _remove_empty_above(source, until=work_dir)
        staged = Staged(source=made_of, tree=tree, by=by, mark=mark, counts=tuple(counts.items()))
        self.ledger.stage(trial_id, staged)

    def base(self, trial_id: str) -> Path | None:
        """What a trial is to be redacted from where secrets were known that are not known now: what was redacted then.

        Returns:
            Its redacted files; `None` where it is redacted from what the trial left.

        Raises:
            NotPublished: That is gone, and nobody knows any more what has to be taken out.
            OSError: The trial is gone.
        """
        staged = self.ledger.trials.get(trial_id)
        before = self.ledger.before.get(trial_id) if staged is None else (staged.source, staged.mark)
        if before is None or before[0] != self._source(trial_id) or self._known.has_all_of(before[1]):
            return None
        place = self.trial(trial_id)
        with suppress(OSError, NotPublished):
            if staged is not None and staged.tree == stamp_of(place):
                return place
        raise NotPublished(
            "when it was redacted before, secrets were known that are not known now, and what was made then is gone",
            hint="Set the variables again that held them, or run the trial again.",
        )

    def knew_more(self, trial_id: str) -> bool:
        """Whether secrets were known when a trial was redacted that are not known now."""
        staged = self.ledger.trials.get(trial_id)
        return staged is not None and not self._known.has_all_of(staged.mark)

    def accept(
        self, publish: Mapping[str, Path], *, work_dir: Path, trial_id: str | None = None, step: str | None = None
    ) -> tuple[str, ...]:
        """Take what a step publishes besides, for a trial or for the whole run.

        What a step of the whole run had published before and does not any more is gone.

        Returns:
            The places.

        Raises:
            NotPublished: It cannot be taken.
            OSError: The disk did not take it; each place has what it had or the new one.
        """
        check_publish(publish, work_dir)
        owner = of_trial(trial_id) if trial_id is not None else of_step(step or "")
        trees = {place: stamp_of(source) for place, source in publish.items()}
        if trial_id is None and self._owners is not None:
            for place in left_in_the_way(self.ledger, publish, owners=self._owners):
                self.take(place)
        with self._lock:
            for place in publish:
                check_free(self.ledger, place, owner, run_dir=self.run_dir)
            self.ledger.begin(publish, owner)
        mark, made_of = self._known.mark(), "" if trial_id is not None else self.made_of()
        for place, source in publish.items():
            put(source, self.run_dir / place, trash=self.room)
            _remove_empty_above(source, until=work_dir)
            self.ledger.put(place, tree=trees[place], mark=mark, made_of=made_of)
            self.ensure_linked(place)
        if trial_id is None:
            for place in self.ledger.owned(owner) - set(publish):
                self.take(place)
        return tuple(publish)

    def withdraw(self, trial_id: str) -> None:
        """Remove everything of a trial."""
        for place in self.ledger.owned(of_trial(trial_id)):
            self.take(place)
        remove(self.trial(trial_id), trash=self.room)
        self.ledger.unstage(trial_id)

    def take(self, place: str) -> None:
        """Remove something published."""
        for home in (self.root, self.run_dir):
            remove(home / place, trash=self.room)
            _remove_empty_above(home / place, until=home)
        self.ledger.take(place)

    def knows(self, trial_id: str) -> bool:
        """Whether there is anything of a trial."""
        return trial_id in self.ledger.trials or bool(self.ledger.owned(of_trial(trial_id)))

    @property
    def known_trials(self) -> frozenset[str]:
        """The trials of which there is anything."""
        return frozenset(self.ledger.trials) | self.ledger.trials_with_places()

    def places_of_trial(self, trial_id: str) -> frozenset[str]:
        """What the steps of a trial have published besides its files."""
        return self.ledger.owned(of_trial(trial_id))

    def places_of_step(self, label: str) -> frozenset[str]:
        """What a step of the whole run has published."""
        return self.ledger.owned(of_step(label))

    def made_of(self) -> str:
        """What tells the redacted trials that there are from any others."""
        if self._made_of[0] != self.ledger.changes:
            found, changes = hashlib.blake2b(digest_size=12), self.ledger.changes
            for name, staged in sorted(self.ledger.trials.items()):
                found.update(repr((name, staged.source, staged.tree, staged.by)).encode("utf-8", "backslashreplace"))
            self._made_of = (changes, found.hexdigest())
        return self._made_of[1]

    def is_of_trial(self, trial_id: str, place: PurePosixPath) -> bool:
        """Whether what stands at a place, or would stand there, is of a trial and of no other."""
        own = {trial_place(trial_id), *self.places_of_trial(trial_id)}
        return any(str(above) in own for above in (place, *place.parents))

    def is_of_steps(self, place: PurePosixPath) -> bool:
        """Whether what stands at a place was published by steps of the whole run."""
        own = [self.ledger.places.get(str(above)) for above in (place, *place.parents)]
        own += [placed for name, placed in self.ledger.places.items() if PurePosixPath(name).is_relative_to(place)]
        found = [placed for placed in own if placed is not None]
        return place.name != "" and bool(found) and all(is_of_step(placed.owner) for placed in found)

    def counts(self, trial_id: str) -> dict[str, int]:
        """How often each kind of secret was taken out of the redacted files of a trial."""
        staged = self.ledger.trials.get(trial_id)
        return {} if staged is None else dict(staged.counts)

    def is_fresh(self, trial_id: str, *, by: str) -> bool:
        """Whether the redacted files of a trial are what the trial, the step and what is known of secrets make them."""
        staged = self.ledger.trials.get(trial_id)
        if staged is None or staged.by != by or not self._known.covers(staged.mark):
            return False
        try:
            return staged.source == self._source(trial_id) and staged.tree == stamp_of(self.trial(trial_id))
        except (OSError, NotPublished):
            return False

    def is_whole(self, place: str) -> bool:
        """Whether something published is as it was then, of the trials that there are, and with no new secrets."""
        placed = self.ledger.places.get(place)
        if placed is None or not placed.tree or not self._known.covers(placed.mark):
            return False
        if placed.made_of and placed.made_of != self.made_of():
            return False
        try:
            return placed.tree == stamp_of(self.run_dir / place)
        except (OSError, NotPublished):
            return False

    def ensure_linked(self, place: str) -> None:
        """Have something published in the tree as it is in the run's directory."""
        for parent in reversed(PurePosixPath(place).parents[:-1]):
            if (self.root / parent).is_symlink():
                (self.root / parent).unlink()
        if not is_linked(self.run_dir / place, self.root / place):
            link(self.run_dir / place, self.root / place, room=self.room)

    def _source(self, trial_id: str) -> tuple[int, ...]:
        about = os.lstat(self.run_dir / trial_place(trial_id) / TRIAL_FILE)
        return about.st_size, about.st_mtime_ns, about.st_ino


def _remove_empty_above(path: Path, *, until: Path) -> None:
    """Remove the directories that something was in, as far as nothing else is."""
    for parent in path.parents:
        if parent == until or not parent.is_relative_to(until):
            return
        try:
            parent.rmdir()
        except OSError:
            return
