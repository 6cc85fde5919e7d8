"""The two kinds of manifest.json: of a rollout and of an experiment."""

from __future__ import annotations

import json

from agentix.records.experiment import ExperimentManifest
from agentix.records.manifest import Manifest

AnyManifest = Manifest | ExperimentManifest


def parse_manifest(data: bytes, *, where: str) -> AnyManifest:
    """Read a manifest of either kind.

    Raises:
        RecordsDamaged: It is none, or was written by a newer version.
    """
    return (ExperimentManifest if is_experiment(data) else Manifest).parse(data, where=where)


def is_experiment(data: bytes) -> bool:
    """Whether the manifest says that it is an experiment's."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("kind") == "experiment"
