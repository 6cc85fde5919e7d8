"""What a command sees that ships one trial: that trial, and no other, which may still be dropped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from agentix.plugins.experiments.publishing.places import trial_place
from agentix.plugins.experiments.publishing.staging import Staging
from agentix.plugins.experiments.publishing.trees import clear, link

_OF_ALL = ("experiment.yaml", "manifest.json")
"""Of the run as a whole, and of no trial; they are there once the tree was put together."""


@contextmanager
def view_of_trial(staging: Staging, trial_id: str) -> Iterator[Path]:
    """A tree like the staging tree with one trial in it, of links to the same bytes where the disk has those.

    Args:
        staging: The tree.
        trial_id: The trial.
    """
    root = staging.room / uuid4().hex
    root.mkdir()
    try:
        for place in (trial_place(trial_id), *sorted(staging.places_of_trial(trial_id))):
            link(staging.root / place, root / place, room=staging.room)
        for name in _OF_ALL:
            if (staging.root / name).is_file():
                link(staging.root / name, root / name, room=staging.room)
        yield root
    finally:
        clear(root)
