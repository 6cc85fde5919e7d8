"""Sandboxes that are child processes, whose streams break wherever a test says, and that can be dialled again."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
from anyio.abc import ByteStream

import agentix.runtime
from agentix.sandbox import HostProcessProvider, SocketStream

ROOT = str(Path(agentix.runtime.__file__).parent.parent.parent)
BRIDGE = f"import sys; sys.path.insert(0, {ROOT!r}); from agentix.runtime.bridge import main; main()"


class Breaking(ByteStream):
    """A stream that breaks in the middle of whatever passes when so many bytes have, in either direction."""

    def __init__(self, inner: SocketStream, left: int | None) -> None:
        self.inner = inner
        self.left = left

    def _spend(self, most: int) -> int:
        if self.left is None:
            return most
        if self.left <= 0:
            self.cut()
            raise anyio.BrokenResourceError
        return min(most, self.left)

    def _spent(self, amount: int) -> None:
        if self.left is not None:
            self.left -= amount

    def cut(self) -> None:
        """Break it now, so that both sides see it."""
        self.left = 0
        try:
            self.inner._raw.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    async def receive(self, max_bytes: int = 65536) -> bytes:
        received = await self.inner.receive(self._spend(max_bytes))
        self._spent(len(received))
        return received

    async def send(self, item: bytes) -> None:
        while item:
            piece = item[: self._spend(len(item))]
            await self.inner.send(piece)
            self._spent(len(piece))
            item = item[len(piece) :]

    def send_nowait(self, item: bytes) -> int:
        """Refuse now and then, as sockets do."""
        if self.left is not None and self.left <= 0:
            self.cut()
            raise BrokenPipeError
        sent = self.inner.send_nowait(item[: self.left])
        self._spent(sent)
        return sent

    async def send_eof(self) -> None:
        await self.inner.send_eof()

    async def aclose(self) -> None:
        await self.inner.aclose()


class LossyProvider(HostProcessProvider):
    """Dials again through a real bridge.

    Args:
        lives: Gives after how many bytes the next stream breaks, `None` for one that does not.
    """

    name = "lossy"
    reconnect_s = 20.0

    def __init__(self, lives: Callable[[], int | None] = lambda: None) -> None:
        super().__init__()
        self.lives = lives
        self.streams: list[Breaking] = []
        self.names: list[str] = []
        self.refuse_with: list[BaseException] = []
        """Raised, one after the other, instead of giving a bridge."""
        self._bridges: list[subprocess.Popen[bytes]] = []

    async def dial(self, sandbox_id: str) -> ByteStream:
        return self._breaking(await super().dial(sandbox_id))

    async def bridge(self, sandbox_id: str, argv: Sequence[str]) -> ByteStream:
        self.names.append(argv[-1])
        if self.refuse_with:
            raise self.refuse_with.pop(0)
        return self._breaking(self.start_bridge(argv[-1]))

    def start_bridge(self, name: str) -> SocketStream:
        """Start a bridge as an engine would."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-I", "-S", "-c", BRIDGE, name]
            self._bridges.append(subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL))
        return SocketStream(ours)

    def _breaking(self, stream: ByteStream) -> Breaking:
        assert isinstance(stream, SocketStream)
        self.streams.append(Breaking(stream, self.lives()))
        return self.streams[-1]

    async def delete(self, sandbox_id: str) -> None:
        entry = self._sandboxes.get(sandbox_id)
        if entry is not None and entry.process is not None and entry.process.poll() is None:
            # It would wait for a host that may come back.
            entry.process.terminate()
        await super().delete(sandbox_id)
        for bridge in self._bridges:
            # Each has ended, since the server is gone.
            await anyio.to_thread.run_sync(bridge.wait, 20)
        self._bridges.clear()
