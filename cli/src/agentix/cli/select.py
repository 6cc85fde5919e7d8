"""Which instances of a dataset a run is about."""

from __future__ import annotations

import difflib
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

from agentix.errors import DatasetError, UsageError

_NEAR = 5


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What was asked for; applied in this order."""

    patterns: tuple[str, ...] = ()
    """Ids or globs; an instance that any of them matches is wanted. None wants all."""
    sample: int | None = None
    """As many, drawn at random."""
    seed: int = 0
    limit: int | None = None
    """As many at most, the first ones."""

    def apply(self, instances: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """The wanted instances in the order of the dataset, which is read no further than is needed.

        Raises:
            DatasetError: Two instances have one id, or one has none.
            UsageError: A pattern matches nothing, or nothing is left.
        """
        checked = _checked(instances)
        if not self.patterns and self.sample is None:
            chosen = list(islice(checked, self.limit))
        else:
            everything = list(checked)
            chosen = _matching(everything, self.patterns) if self.patterns else everything
            if self.sample is not None and self.sample < len(chosen):
                # The sample is meant to be the same again, not to be hard to guess.
                picked = random.Random(self.seed).sample(range(len(chosen)), self.sample)  # noqa: S311
                chosen = [chosen[position] for position in sorted(picked)]
            chosen = chosen[: self.limit]
        if not chosen:
            raise UsageError("the dataset has no instances", hint="Nothing was run.")
        return chosen


def _checked(instances: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    seen: dict[str, int] = {}
    for position, instance in enumerate(instances, start=1):
        name = instance.get("instance_id") if isinstance(instance, dict) else None
        if not isinstance(name, str) or not name:
            raise DatasetError(f"instance {position} of the dataset has no instance_id that is a non-empty string")
        first = seen.setdefault(name, position)
        if first != position:
            raise DatasetError(
                f"two instances have the id {name!r}: {_place(first)} and {_place(position, instance)}",
                hint="Give one of them another id.",
            )
        yield instance


def _place(position: int, instance: dict[str, Any] | None = None) -> str:
    path = (instance or {}).get("path")
    return f"number {position}" + (f" ({path})" if isinstance(path, str) else "")


def _matching(instances: Sequence[dict[str, Any]], patterns: Sequence[str]) -> list[dict[str, Any]]:
    ids = [instance["instance_id"] for instance in instances]
    known = set(ids)
    wanted: set[str] = set()
    missing: list[str] = []
    for pattern in patterns:
        found = {pattern} & known or {name for name in ids if fnmatchcase(name, pattern)}
        wanted |= found
        if not found:
            missing.append(pattern)
    if missing:
        lines = "".join(f"\n    {pattern!r}{_near(pattern, ids)}" for pattern in missing)
        raise UsageError(
            f"--instance: of {len(ids)} instances none matches:{lines}",
            hint="Nothing was run. Give ids or globs such as 'django*', quoted.",
        )
    return [instance for instance in instances if instance["instance_id"] in wanted]


def _near(pattern: str, ids: Sequence[str]) -> str:
    bare = pattern.strip("*?").lower()
    by_lower = {name.lower(): name for name in ids}
    near = [name for name in ids if bare and bare in name.lower()][:_NEAR]
    near += [by_lower[low] for low in difflib.get_close_matches(bare, by_lower, n=_NEAR) if by_lower[low] not in near]
    if near:
        return f"; near: {', '.join(near[:_NEAR])}"
    more = ", …" if len(ids) > _NEAR else ""
    return f"; there are {', '.join(ids[:_NEAR])}{more}" if ids else ""
