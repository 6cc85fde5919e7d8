"""The order in which trials are listed: that of the dataset, which does not change with how long each took."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from agentix.records import Manifest, Record, Run

Order = Callable[[Record], tuple[int, str, int]]


def planned_order(run: Run) -> Order:
    """Where a record stands: by its instance's place in the plan, then by the trial's number.

    What the plan does not name comes last, by its id.
    """
    manifest = run.manifest
    instances = manifest.instances if isinstance(manifest, Manifest) else ()
    places = {instance.id: place for place, instance in enumerate(instances)}

    def order(record: Record) -> tuple[int, str, int]:
        return places.get(record.case, len(places)), record.case, record.index

    return order


def first(records: Iterable[Record], most: int, *, key: Order) -> list[Record]:
    """The first so many, in order; no more than these are held at a time."""
    return heapq.nsmallest(most, records, key=key)
