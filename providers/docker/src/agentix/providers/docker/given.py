"""To whom a container was given that was made for nobody: an engine cannot change a container's labels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from agentix.api import HostError, cache_dir
from agentix.providers.docker.labels import Found


def write(sandbox_id: str, labels: Mapping[str, str]) -> None:
    """Write down the labels of whoever has it from now on.

    Raises:
        HostError: It cannot be written down.
    """
    path = _path(sandbox_id)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(dict(labels)), encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise HostError(f"{path}: the labels of a sandbox could not be written down: {error.strerror}") from error


def forget(sandbox_id: str) -> None:
    """It does not exist any more."""
    with suppress(OSError, ValueError):
        _path(sandbox_id).unlink(missing_ok=True)


def told(found: Found) -> Found:
    """A sandbox with the labels that it was given later."""
    if not found.warm:
        return found
    try:
        labels = json.loads(_path(found.info.id).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return found
    if not isinstance(labels, dict):
        return found
    return replace(found, info=replace(found.info, labels={str(name): str(value) for name, value in labels.items()}))


def _path(sandbox_id: str) -> Path:
    return cache_dir() / "docker" / "given" / f"{Path(sandbox_id).name}.json"
