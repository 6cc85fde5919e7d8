"""What an engine keeps of ours: images that were built for tasks, and volumes with runtimes and bundles."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import anyio.to_thread

from agentix.api import KeptImage, PrunedImages
from agentix.providers.docker.build_request import LABEL, ORIGIN, REPOSITORY
from agentix.providers.docker.building import log_path
from agentix.providers.docker.engine import Engine, segment
from agentix.providers.docker.trees import HOLDER
from agentix.providers.docker.trees import LABEL as TREE

_FILLING_S = 3600.0


class ImageStore:
    """Lists and removes them.

    Args:
        engine: The engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def images(self) -> Sequence[KeptImage]:
        """The images that were built for tasks, those used last first."""
        query = {"filters": json.dumps({"label": [LABEL]})}
        listing = (await self._engine.call("GET", "/images/json", query=query, doing="list images")).json()
        found: list[KeptImage] = []
        for image in listing or ():
            path = f"/images/{segment(str(image['Id']))}/json"
            answer = await self._engine.call("GET", path, doing="inspect an image", ok=(404,))
            if answer.status != 404:
                found.extend(_read(image, answer.json()))
        return sorted(found, key=lambda image: (-image.used_at, image.name))

    async def prune(self, *, unused_for_s: float, dry_run: bool) -> PrunedImages:
        """Remove what nobody has asked for in this time and no container uses."""
        before = time.time() - unused_for_s
        removed: list[str] = []
        kept: list[str] = []
        size = 0
        used = await self._used()
        for image in await self.images():
            if image.used_at > before:
                continue
            if image.id in used or not await self._remove(f"/images/{segment(image.name)}", dry_run=dry_run):
                kept.append(image.name)
                continue
            removed.append(image.name)
            size += image.size
            if not dry_run:
                await anyio.to_thread.run_sync(_forget_log, image.name)
        async for name, gone in self._volumes(before, dry_run=dry_run):
            (removed if gone else kept).append(name)
        return PrunedImages(removed=tuple(removed), kept=tuple(kept), size=size)

    async def _volumes(self, before: float, *, dry_run: bool) -> AsyncIterator[tuple[str, bool]]:
        query = {"filters": json.dumps({"label": [TREE]})}
        listing = (await self._engine.call("GET", "/volumes", query=query, doing="list volumes")).json()
        volumes = {str(volume["Name"]): volume for volume in listing.get("Volumes") or ()}
        holders = {name: str(one["Labels"][HOLDER]) for name, one in volumes.items() if HOLDER in one["Labels"]}
        busy = await self._mounted()
        # What holds a tree goes first: a mark alone is looked through, and nobody mounts a mark.
        for name, volume in sorted(volumes.items(), key=lambda item: HOLDER in item[1]["Labels"]):
            marked = name in holders.values()
            age_of = min(before, time.time() - _FILLING_S) if not marked and name not in holders else before
            if _seconds(volume.get("CreatedAt")) > age_of or holders.get(name) in busy:
                continue
            if name in busy:
                yield name, False
            elif await self._remove(f"/volumes/{segment(name)}", dry_run=dry_run):
                yield name, True
            else:
                yield name, False

    async def _used(self) -> set[str]:
        listing = await self._engine.call("GET", "/containers/json", query={"all": "1"}, doing="list containers")
        return {str(container.get("ImageID")) for container in listing.json() or ()}

    async def _mounted(self) -> set[str]:
        listing = await self._engine.call("GET", "/containers/json", query={"all": "1"}, doing="list containers")
        return {str(one.get("Name")) for container in listing.json() or () for one in container.get("Mounts") or ()}

    async def _remove(self, path: str, *, dry_run: bool) -> bool:
        """Remove it, unless somebody uses it."""
        if dry_run:
            return True
        answer = await self._engine.call("DELETE", path, doing="remove what is not needed", ok=(404, 409))
        return answer.status != 409


def _read(image: Mapping[str, Any], inspected: Mapping[str, Any]) -> Iterator[KeptImage]:
    labels = image.get("Labels") or {}
    used_at = max(_seconds((inspected.get("Metadata") or {}).get("LastTagTime")), float(image.get("Created") or 0))
    # An image without a name is what is left of one that was built again.
    # Podman says which registry it would come from.
    names = [f"{REPOSITORY}:{tag}" for head, _, tag in map(_parted, image.get("RepoTags") or ()) if head == REPOSITORY]
    for name in names or [str(image["Id"])]:
        yield KeptImage(
            name=name,
            id=str(image["Id"]),
            size=int(image.get("Size") or 0),
            used_at=used_at,
            origin=str(labels.get(ORIGIN, "")),
        )


def _parted(name: str) -> tuple[str, str, str]:
    return name.rpartition("/")[2].partition(":")


def _seconds(text: object) -> float:
    """Seconds since the epoch; 0 where it was never set (RFC 3339, with up to nine digits of a second)."""
    with suppress(ValueError, TypeError, OverflowError):
        return max(0.0, datetime.fromisoformat(str(text)).timestamp())
    return 0.0


def _forget_log(name: str) -> None:
    with suppress(OSError):
        log_path(name).unlink()
