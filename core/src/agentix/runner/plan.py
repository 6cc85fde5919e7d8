"""The trials of a dataset, made one at a time as they are needed."""

from __future__ import annotations

import hashlib
import uuid
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agentix.errors import DatasetError
from agentix.models import Trial, trial_id

RUN_LABEL = "agentix.run"
TRIAL_LABEL = "agentix.trial"


class SeenIds:
    """Which ids were seen, in nine bytes each: a dataset may have millions.

    An id is known by 64 bits of its hash. Among a million ids the odds that two different ones are taken
    for the same are below one in thirty million.
    """

    def __init__(self) -> None:
        self._parts: dict[int, array[int]] = {}

    def add(self, name: str) -> bool:
        """Whether the id is new."""
        digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        value = int.from_bytes(digest)
        part = self._parts.setdefault(value >> 56, array("Q"))
        place = bisect_left(part, value)
        if place < len(part) and part[place] == value:
            return False
        part.insert(place, value)
        return True


def plan(
    instances: Iterable[Mapping[str, Any]], *, trials: int, model: str | None, run_id: str | None = None
) -> Iterator[Trial]:
    """The trials of the instances, in order, those of one instance one after the other.

    Args:
        instances: Read lazily.
        trials: How many of each instance.
        model: What the agent is told to use.
        run_id: In the labels of every sandbox; a new one by default.

    Raises:
        DatasetError: An instance has no id, or one that another has too.
    """
    run_id = run_id or uuid.uuid4().hex[:12]
    seen = SeenIds()
    position = 0
    for number, instance in enumerate(instances):
        name = checked_id(instance, number)
        if not seen.add(name):
            raise DatasetError(f"instance {number}: two instances have the id {name!r}")
        for index in range(1, trials + 1):
            yield planned(instance, index=index, model=model, position=position, run_id=run_id)
            position += 1


def planned(
    instance: Mapping[str, Any], *, index: int = 1, model: str | None = None, position: int = 0, run_id: str
) -> Trial:
    """One trial, with its id and its labels."""
    name = trial_id(str(instance["instance_id"]), index=index)
    return Trial(
        trial_id=name,
        instance=instance,
        index=index,
        model=model,
        position=position,
        labels={RUN_LABEL: run_id, TRIAL_LABEL: name},
    )


def checked_id(instance: object, number: int) -> str:
    """The id of an instance.

    Raises:
        DatasetError: It has none.
    """
    if not isinstance(instance, Mapping):
        raise DatasetError(f"instance {number} is {type(instance).__name__}, not a dict")
    name = instance.get("instance_id")
    if not isinstance(name, str) or not name:
        raise DatasetError(f"instance {number} has no instance_id that is a non-empty string, but {name!r:.100}")
    return name
