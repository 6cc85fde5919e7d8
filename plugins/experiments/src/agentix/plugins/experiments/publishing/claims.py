"""Who has what place in a run's directory, and whether another one may have it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path, PurePosixPath

from agentix.plugins.experiments.publishing.ledger import Ledger, is_of_step
from agentix.plugins.experiments.publishing.places import NotPublished


def left_in_the_way(ledger: Ledger, publish: Collection[str], *, owners: Collection[str]) -> list[str]:
    """What steps that there are no more have published where something is to be.

    Args:
        ledger: Knows who has published what.
        publish: The places that are to be used.
        owners: The steps of the whole run that there are.
    """
    left = [place for place, by in list(ledger.places.items()) if is_of_step(by.owner) and by.owner not in owners]
    return [
        place
        for place in left
        if any(_overlap(PurePosixPath(place).parts, PurePosixPath(wanted).parts) for wanted in publish)
    ]


def check_free(ledger: Ledger, place: str, owner: str, *, run_dir: Path) -> None:
    """Check that a place is free, or the owner's already.

    Args:
        ledger: Knows who has published what.
        place: Relative to the run's directory.
        owner: Who wants it.
        run_dir: The run's directory.

    Raises:
        NotPublished: It is somebody else's.
    """
    path = PurePosixPath(place)
    mine = ledger.owned(owner)
    for parent in path.parents:
        if str(parent) in ledger.places and str(parent) not in mine:
            raise NotPublished(f"{place}: {parent} was published by {ledger.places[str(parent)].owner}")
    placed = ledger.places.get(place)
    if placed is not None:
        if placed.owner != owner:
            raise NotPublished(f"{place}: was published by {placed.owner} already")
        return
    there = run_dir / place
    if there.is_symlink() or (there.exists() and not (there.is_dir() and not any(there.iterdir()))):
        # Nobody vouches for it: it is the rest of an interrupted step, or what somebody else put there.
        if any(other.startswith(f"{place}/") for other in list(ledger.places)):
            raise NotPublished(f"{place}: there is something below it that other steps have published")
        if len(path.parts) == 1 and not there.is_dir():
            raise NotPublished(f"{place}: there is such a file already, and no step has published it")


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    common = min(len(one), len(other))
    return one[:common] == other[:common]
