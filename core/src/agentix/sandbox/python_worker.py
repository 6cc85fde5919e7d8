"""The host's side of the Python worker of a sandbox: started when it is needed, and again when it has ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from agentix.sandbox.replay import Replay

if TYPE_CHECKING:
    from agentix.sandbox.call import Call
    from agentix.sandbox.connection import Connection
    from agentix.sandbox.function import Place

TOTAL = 1 << 30
"""How many bytes of results may be on their way from one sandbox at a time."""

_PACE_S = 0.05


class Running:
    """One process, for as long as it lives.

    Args:
        connection: To its sandbox.
        call: What stands for it.
        replay: Takes what it logs and prints.
    """

    def __init__(self, connection: Connection, call: Call, replay: Replay) -> None:
        self.connection = connection
        self.id = call.id
        self.ended = anyio.Event()
        self.calls = 0
        """How many calls are under way in it."""
        self.failure: Exception | None = None
        self.exit: Any = None
        self._call = call
        self._replay = replay

    async def listen(self) -> None:
        """Log what it says, until it ends. Nothing is raised: this runs beside everything."""
        try:
            async with self._call as call:
                while (received := await call.receive()) is not None:
                    self._replay.feed(*received)
                    if self._replay.flooded:
                        # What is not taken is dropped in the sandbox, where it costs this process nothing.
                        await anyio.sleep(_PACE_S)
                self.exit = await call.result()
        except Exception as error:
            self.failure = error
        finally:
            self._replay.end()
            self.ended.set()

    async def heard(self) -> None:
        """Wait until what it said before now is logged."""
        while self._call.waiting and not self._replay.flooded and not self.ended.is_set():
            await anyio.lowlevel.checkpoint()
        if self.calls <= 1:
            # Nobody is left who could complete a line.
            self._replay.end_lines()


class PythonWorker:
    """The worker of one sandbox.

    Args:
        place: What it can import.
        cwd: Where it starts.
        connect: Gives the connection to the sandbox.
        sandbox_id: Whose it is.
    """

    def __init__(
        self, place: Place, *, cwd: bytes, connect: Callable[[], Awaitable[Connection]], sandbox_id: str
    ) -> None:
        self.place = place
        self.incoming = 0
        """Bytes of results on their way."""
        self._cwd = cwd
        self._connect = connect
        self._replay = Replay(sandbox_id)
        self._running: Running | None = None

    @property
    def log_level(self) -> int:
        """Below which there is no use in sending records."""
        return self._replay.logger.getEffectiveLevel()

    async def running(self) -> Running:
        """The process, started where there is none."""
        connection = await self._connect()
        running = self._running
        if running is None or running.ended.is_set():
            running = Running(connection, connection.call("worker", self._request()), self._replay)
            connection.spawn(running.listen)
            self._running = running
        return running

    def retire(self, running: Running) -> None:
        """Use a process no more: the sandbox says that it has ended."""
        if self._running is running:
            self._running = None

    def _request(self) -> dict[str, Any]:
        bundle = self.place.bundle
        path: list[str] = []
        site: list[str] = []
        library = ""
        if bundle is not None:
            site = [bundle.site]
            if any(entry.path.startswith("lib/") for entry in bundle.entries):
                library = bundle.lib
        elif self.place.shares_host:
            path = [os.path.abspath(directory) for directory in sys.path]  # noqa: PTH100
            site = [directory for directory in path if Path(directory).name in ("site-packages", "dist-packages")]
        return {
            "cwd": self._cwd,
            "env": {},
            "user": None,
            "library": os.fsencode(library),
            "path": [os.fsencode(directory) for directory in path],
            "site": [os.fsencode(directory) for directory in site],
        }
