"""Cases that are the instances of an installed dataset."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from agentix.api import Case, HasContentHash, content_hash, load
from agentix.plugins.experiments.documents import CaseSpec, nearest


class NoInstance(Exception):
    """A pattern of `ids` matches nothing: its position, and the id that may have been meant."""

    def __init__(self, position: int, message: str, near: str | None) -> None:
        super().__init__(message)
        self.position = position
        self.near = near


def dataset_cases(spec: CaseSpec, *, where: str) -> tuple[tuple[Case, Path | None], ...]:
    """The instances that an entry stands for, each with the directory that it consists of, where it is one.

    Args:
        spec: An entry with the source `dataset`.
        where: Its path in the file.

    Raises:
        NoInstance: An id matches no instance.
        AgentixError: The dataset cannot be loaded or read.
    """
    ref = spec.dataset or ""
    dataset = load("dataset", ref, spec.options, where=where, typed=spec.options)
    instances = list(dataset.instances())
    names = [str(instance["instance_id"]) for instance in instances]
    for position, pattern in enumerate(spec.ids):
        if not any(_matches(name, pattern) for name in names):
            raise NoInstance(position, f"no instance of {ref} matches {pattern!r}", nearest(pattern, names))
    chosen = []
    for name, instance in zip(names, instances, strict=True):
        if spec.ids and not any(_matches(name, pattern) for pattern in spec.ids):
            continue
        digest = dataset.content_hash(instance) if isinstance(dataset, HasContentHash) else None
        case = Case(
            name=name,
            label=name,
            source="dataset",
            dataset=ref,
            instance=instance,
            options=dict(spec.options),
            sha256=digest,
            pin={"dataset": ref},
        )
        chosen.append((case, _directory(instance, digest)))
    return tuple(chosen)


def _directory(instance: Mapping[str, Any], digest: str | None) -> Path | None:
    """The directory that an instance consists of: the one that it names, where that has the same hash."""
    path = instance.get("path")
    if digest is None or not isinstance(path, str) or not Path(path).is_dir():
        return None
    return Path(path) if content_hash(Path(path)) == digest else None


def _matches(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)
