"""Gets agentix's runtime into containers: bound from a directory that the engine sees, or from a volume filled once."""

from __future__ import annotations

import logging
import secrets
import tarfile
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import IO, Any

import anyio
import anyio.to_thread

from agentix.api import RuntimeMount
from agentix.providers.docker.container import RUNTIME
from agentix.providers.docker.engine import Engine, EngineError
from agentix.providers.docker.flight import Flights
from agentix.providers.docker.http import FileBody

_LOG = logging.getLogger("agentix.providers.docker")
_FILLED = ".filled"
_SHOWN = ("bind source path does not exist", "no such file or directory", "invalid mount config", "statfs")


def bound(runtime: RuntimeMount) -> dict[str, Any]:
    """The mount of a directory of this machine."""
    return {"Type": "bind", "Source": str(runtime.path), "Target": RUNTIME, "ReadOnly": True}


def is_unseen(error: EngineError, runtime: RuntimeMount) -> bool:
    """Whether the engine refused a container because it does not see the runtime's directory."""
    reason = error.reason.lower()
    return str(runtime.path).lower() in reason and any(words in reason for words in _SHOWN)


class Volumes:
    """The volumes that hold a runtime each, on an engine that does not see this machine's directories.

    Args:
        engine: The engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._flights: Flights[str] = Flights()
        self._filled: set[str] = set()

    async def get(self, runtime: RuntimeMount, *, image: str) -> dict[str, Any]:
        """The mount of a filled volume.

        Args:
            runtime: What it holds.
            image: Any image: a container of it, which is never started, is needed to get at the volume.

        Raises:
            HostError: It cannot be filled.
        """
        name = f"agentix-runtime-{runtime.digest[:24]}"
        if name not in self._filled:
            await self._flights.run(name, lambda: self._fill(name, runtime, image))
        return {"Type": "volume", "Source": name, "Target": RUNTIME, "ReadOnly": True}

    async def _fill(self, name: str, runtime: RuntimeMount, image: str) -> str:
        if name in self._filled:
            return name
        doing = "fill the volume of the runtime"
        async with self._carrier(name, image) as path:
            query = {"path": f"{RUNTIME}/{_FILLED}"}
            there = await self._engine.call("HEAD", f"{path}/archive", query=query, doing=doing, ok=(404,))
            if there.status == 404:
                _LOG.info("copying the runtime to the engine, once")
                with tempfile.TemporaryFile() as file:
                    await anyio.to_thread.run_sync(_pack, file, runtime)
                    async with self._engine.stream(
                        "PUT",
                        f"{path}/archive",
                        query={"path": RUNTIME},
                        headers={"Content-Type": "application/x-tar"},
                        body=FileBody(file),
                        doing=doing,
                    ) as answer:
                        async for _ in answer:
                            pass
        self._filled.add(name)
        return name

    @asynccontextmanager
    async def _carrier(self, name: str, image: str) -> AsyncIterator[str]:
        path = f"/containers/agentix-fill-{secrets.token_hex(6)}"
        body = {
            "Image": image,
            "Entrypoint": ["/agentix"],
            "NetworkDisabled": True,
            "HostConfig": {"Mounts": [{"Type": "volume", "Source": name, "Target": RUNTIME}]},
        }
        query = {"name": path.rpartition("/")[2]}
        try:
            await self._engine.call("POST", "/containers/create", query=query, body=body, doing="create a container")
            yield path
        finally:
            with anyio.CancelScope(shield=True):
                await self._engine.call("DELETE", path, query={"force": "1"}, doing="remove it", ok=(404, 409))


def _pack(file: IO[bytes], runtime: RuntimeMount) -> None:
    def owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry

    with tarfile.open(fileobj=file, mode="w") as tar:
        tar.add(runtime.path, arcname=".", filter=owned_by_root)
        # The last one, so that it tells that all others are there.
        tar.addfile(tarfile.TarInfo(_FILLED))
    file.seek(0)
