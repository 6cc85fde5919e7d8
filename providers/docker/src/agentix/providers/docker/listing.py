"""Finds sandboxes on an engine by their labels: containers, and what of one is left without any."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from agentix.providers.docker import given
from agentix.providers.docker.engine import Engine
from agentix.providers.docker.labels import PROVIDER, Found, read

_OURS = json.dumps({"label": [f"{PROVIDER}=docker"]})


async def find_sandboxes(engine: Engine, labels: Mapping[str, str]) -> tuple[Found, ...]:
    """The sandboxes that carry all of these labels, whoever made them.

    A process that is killed while it makes the services of a sandbox may leave networks and volumes only.

    Raises:
        HostError: The engine failed.
    """
    containers = await _get(engine, "/containers/json", {"all": "1"})
    networks = await _get(engine, "/networks", {})
    volumes = (await _get(engine, "/volumes", {}) or {}).get("Volumes")
    found = [one for container in containers or () if (one := read(container)) is not None]
    # Services are listed under the id of their sandbox, which may be gone itself.
    found += [one for part in (networks, volumes) for one in _read_parts(part or ())]
    told = (given.told(one) for one in {one.info.id: one for one in reversed(found)}.values())
    return tuple(one for one in told if labels.items() <= one.info.labels.items())


async def _get(engine: Engine, path: str, query: Mapping[str, str]) -> Any:
    return (await engine.call("GET", path, query={**query, "filters": _OURS}, doing="list sandboxes")).json()


def _read_parts(parts: Iterable[Mapping[str, Any]]) -> list[Found]:
    found = (read({"Labels": part.get("Labels"), "Names": [part.get("Name")]}) for part in parts)
    return [one for one in found if one is not None and one.beside]
