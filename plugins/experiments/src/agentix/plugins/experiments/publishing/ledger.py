"""What of a run was made publishable, by which step and out of what: remembered across sessions, published never."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

_SLACK = 1000
"""Lines that may be out of date before the file is written anew."""


@dataclass(frozen=True, slots=True)
class Staged:
    """The redacted files of a trial, and what they were made of."""

    source: tuple[int, ...]
    """Tells the trial.json that they belong to from any other."""
    tree: str
    """Tells whether they are as they were made."""
    by: str
    """Fingerprint of the step that redacted."""
    mark: int
    """What was known of secrets, as an index into `Ledger.marks`."""
    counts: tuple[tuple[str, int], ...] = ()
    """How often each kind of secret was taken out."""

    def to_data(self) -> dict[str, Any]:
        """As it stands in the file."""
        return {
            "source": list(self.source),
            "tree": self.tree,
            "by": self.by,
            "mark": self.mark,
            "counts": dict(self.counts),
        }


@dataclass(frozen=True, slots=True)
class Placed:
    """Something that a step has published."""

    owner: str
    """A trial or a step of the whole run, as `of_trial` and `of_step` name it."""
    tree: str = ""
    """Empty until it stands whole in its place."""
    mark: int = -1
    made_of: str = ""
    """Of what a step of the whole run has published: tells the trials that it was made of from any others."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A secret that stands in a file of the run as a whole: what tells it there, and hardly anywhere else."""

    file: str
    length: int
    """Bytes."""
    sum: int
    digest: str


_TRIAL, _STEP = "trial ", "step "


def of_trial(trial_id: str) -> str:
    """The owner of what the steps of a trial publish."""
    return _TRIAL + trial_id


def of_step(label: str) -> str:
    """The owner of what a step of the whole run publishes."""
    return _STEP + label


def is_of_step(owner: str) -> bool:
    """Whether that is a step of the whole run."""
    return owner.startswith(_STEP)


class Ledger:
    """A file with a line for every change; what it does not vouch for is not published.

    Use it as a context manager. Its methods may be called from several threads.

    Args:
        path: The file; its directory exists.
    """

    def __init__(self, path: Path) -> None:
        self.salt = ""
        """Of the digests in `marks`."""
        self.marks: list[frozenset[str]] = []
        """Salted digests of all secrets that were known at some time."""
        self.trials: dict[str, Staged] = {}
        self.before: dict[str, tuple[tuple[int, ...], int]] = {}
        """Of trials that are no more staged: what they were made of, and what was known of secrets."""
        self.places: dict[str, Placed] = {}
        self.traces: set[Trace] = set()
        self.changes = 0
        """Another number after every change of `trials`."""
        self.path = path
        self._owned: dict[str, set[str]] = {}
        self._lock = threading.Lock()
        self._fd = -1

    def __enter__(self) -> Self:
        lines = self._read()
        if not self.salt:
            self.salt = uuid4().hex
        if (
            lines is None
            or lines
            > len(self.trials) + len(self.before) + 2 * len(self.places) + len(self.marks) + len(self.traces) + _SLACK
        ):
            self._rewrite()
        self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        return self

    def __exit__(self, *_: object) -> None:
        fd, self._fd = self._fd, -1
        os.close(fd)

    def owned(self, owner: str) -> frozenset[str]:
        """The places of a trial or a step."""
        return frozenset(self._owned.get(owner, ()))

    def trials_with_places(self) -> frozenset[str]:
        """The trials whose steps have published something besides."""
        return frozenset(owner.removeprefix(_TRIAL) for owner in list(self._owned) if owner.startswith(_TRIAL))

    def mark(self, digests: Iterable[str]) -> int:
        """The index of what is known of secrets now."""
        found = frozenset(digests)
        with self._lock:
            for number, known in enumerate(self.marks):
                if known == found:
                    return number
            self._append({"known": sorted(found)})
            return len(self.marks) - 1

    def trace(self, trace: Trace) -> None:
        """Remember a secret where it stands."""
        with self._lock:
            if trace not in self.traces:
                self._append({"trace": trace.file, "length": trace.length, "sum": trace.sum, "digest": trace.digest})

    def stage(self, trial_id: str, staged: Staged) -> None:
        """The redacted files of a trial are in their place."""
        with self._lock:
            self._append({"staged": trial_id, **staged.to_data()})

    def unstage(self, trial_id: str) -> None:
        """They are no more."""
        if trial_id in self.trials:
            with self._lock:
                self._append({"unstaged": trial_id})

    def begin(self, places: Iterable[str], owner: str) -> None:
        """These are about to be put in their place; that this is known is durable when this returns."""
        with self._lock:
            for place in places:
                self._append({"place": place, "owner": owner})
        os.fsync(self._fd)

    def put(self, place: str, *, tree: str, mark: int, made_of: str = "") -> None:
        """One of them is there."""
        with self._lock:
            self._append({"put": place, "tree": tree, "mark": mark, "of": made_of})

    def take(self, place: str) -> None:
        """It is no more."""
        with self._lock:
            self._append({"taken": place})

    def _append(self, line: Mapping[str, Any]) -> None:
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        written = os.write(self._fd, data)
        if written != len(data):
            # Half a line would swallow the one after it.
            os.ftruncate(self._fd, os.fstat(self._fd).st_size - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        self._apply(line)

    def _apply(self, line: Mapping[str, Any]) -> None:
        match line:
            case {"salt": salt}:
                self.salt = str(salt)
            case {"known": digests}:
                self.marks.append(frozenset(digests))
            case {"trace": name, "length": length, "sum": sum_, "digest": found}:
                self.traces.add(Trace(name, length, sum_, found))
            case {"staged": name, "source": source, "tree": tree, "by": by, "mark": mark, "counts": counts}:
                self.changes += 1
                self.before.pop(name, None)
                self.trials[name] = Staged(tuple(source), tree, by, mark, tuple(counts.items()))
            case {"unstaged": name}:
                self.changes += 1
                if (staged := self.trials.pop(name, None)) is not None:
                    self.before[name] = (staged.source, staged.mark)
            case {"before": name, "source": source, "mark": mark}:
                self.before[name] = (tuple(source), mark)
            case {"place": place, "owner": owner}:
                self._forget(place)
                self.places[place] = Placed(owner)
                self._owned.setdefault(owner, set()).add(place)
            case {"put": place, "tree": tree, "mark": mark, "of": made_of}:
                self.places[place] = Placed(self.places[place].owner, tree, mark, made_of)
            case {"taken": place}:
                self._forget(place)
            case _:
                raise KeyError

    def _forget(self, place: str) -> None:
        placed = self.places.pop(place, None)
        if placed is not None:
            owned = self._owned[placed.owner]
            owned.discard(place)
            if not owned:
                del self._owned[placed.owner]

    def _read(self) -> int | None:
        """How many lines there are; `None` where the file is to be written anew."""
        try:
            data = self.path.read_bytes() if self.path.is_file() else b""
        except OSError:
            data = b""
        whole = bool(data) and data.endswith(b"\n")
        count = 0
        for raw in data.splitlines():
            count += 1
            try:
                self._apply(json.loads(raw))
            except (ValueError, KeyError, TypeError):
                # Half a line, or none of ours: what it vouched for is made again.
                whole = False
        return count if whole and self.salt else None

    def _rewrite(self) -> None:
        new = self.path.with_name(f"{uuid4().hex}.tmp")
        lines: list[dict[str, Any]] = [{"salt": self.salt}, *({"known": sorted(mark)} for mark in self.marks)]
        lines += ({"trace": t.file, "length": t.length, "sum": t.sum, "digest": t.digest} for t in self.traces)
        lines += ({"staged": name, **staged.to_data()} for name, staged in self.trials.items())
        lines += (
            {"before": name, "source": list(source), "mark": mark} for name, (source, mark) in self.before.items()
        )
        for place, placed in self.places.items():
            lines.append({"place": place, "owner": placed.owner})
            if placed.tree:
                lines.append({"put": place, "tree": placed.tree, "mark": placed.mark, "of": placed.made_of})
        with new.open("wb") as file:
            file.writelines(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
        if self.path.is_dir() and not self.path.is_symlink():
            self.path.rename(self.path.with_name(uuid4().hex))
        new.replace(self.path)


def digest(value: str, *, salt: str) -> str:
    """What tells a secret from another one, and is slow and short, so that it is of little use to whoever guesses."""
    found = hashlib.scrypt(
        value.encode("utf-8", "surrogatepass"), salt=salt.encode(), n=1 << 12, r=8, p=1, dklen=4, maxmem=1 << 25
    )
    return found.hex()
