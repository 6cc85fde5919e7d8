"""Places in a run's directory: which ones what a step publishes may get."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from agentix.api import RUN_NAMES, AgentixError

TRIALS = "trials"


class NotPublished(AgentixError):
    """What a step wants to publish cannot be; the message says what is wrong with it."""


def trial_place(trial_id: str) -> str:
    """Where the redacted files of a trial are."""
    return f"{TRIALS}/{trial_id}"


def check_publish(publish: Mapping[str, Path], work_dir: Path, *, trial_id: str | None = None) -> None:
    """Check what a step wants to publish, as far as names go.

    Args:
        publish: Source by place.
        work_dir: Of the step.
        trial_id: The trial whose files the step has redacted; `None` where it is no such step.

    Raises:
        NotPublished: A place is not free, or a source is not the step's.
    """
    wanted = None if trial_id is None else trial_place(trial_id)
    if wanted is not None and set(publish) != {wanted}:
        named = ", ".join(sorted(publish)) or "nothing"
        raise NotPublished(f"a step that redacts publishes {wanted} and nothing else, and this one {named}")
    parts = []
    for place, source in publish.items():
        if place != wanted:
            _check_place(place)
        _check_source(place, Path(source), work_dir)
        parts.append(PurePosixPath(place).parts)
    for one, other in zip(sorted(parts), sorted(parts)[1:], strict=False):
        if other[: len(one)] == one:
            raise NotPublished(f"{'/'.join(one)} and {'/'.join(other)} are in each other's way")


def _check_place(place: str) -> None:
    path = PurePosixPath(place)
    wrong = None
    if not place or place != str(path) or path.is_absolute() or ".." in path.parts or place == ".":
        wrong = "is no plain relative path"
    elif not place.isprintable():
        wrong = "has characters that cannot be shown"
    elif path.parts[0] in RUN_NAMES or path.parts[0].startswith("."):
        wrong = f"{path.parts[0]} is the run's own"
    if wrong is not None:
        raise NotPublished(f"{place!r} is no place for what a step publishes: {wrong}")


def _check_source(place: str, source: Path, work_dir: Path) -> None:
    home = work_dir.resolve()
    try:
        # The last part is looked at where it is: what it leads to, where it is a link, is not the step's.
        found = source.parent.resolve(strict=True) / source.name
    except OSError as error:
        raise NotPublished(f"{place}: {source}: {error.strerror}") from None
    if source.name in ("", ".", "..") or not found.is_relative_to(home) or found == home:
        raise NotPublished(f"{place}: {source} is not below the step's own directory")
    if found.is_symlink() or not found.exists():
        raise NotPublished(f"{place}: {source} {'is a link' if found.is_symlink() else 'is not there'}")
