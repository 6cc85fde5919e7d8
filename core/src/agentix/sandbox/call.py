"""One call to the runtime under way: what comes for it, what goes, and how it ends."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import anyio

from agentix.errors import WireError
from agentix.runtime import wire
from agentix.sandbox.failures import remote_error

if TYPE_CHECKING:
    from agentix.sandbox.connection import Connection

CANCEL_S = 15.0
"""How long a cancelled call is waited for; a runtime kills well within it."""


class Call:
    """One call under way.

    Leaving its context before it has ended cancels it in the sandbox, and waits until that is done.
    """

    def __init__(self, connection: Connection, id: int) -> None:
        self.id = id
        self._connection = connection
        self._inbox: deque[tuple[int, bytes | bytearray]] = deque()
        self._held = 0
        self._consumed = 0
        self._credit = wire.WINDOW
        self._changed: anyio.Event | None = None
        self._over = False
        self._value: Any = None
        self._failed = False
        self._abandoned = False

    async def __aenter__(self) -> Call:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        if isinstance(error, WireError):
            self._connection.distrust(error)
        if self._over:
            return
        self._abandoned = True
        self._inbox.clear()
        self.cancel()
        with anyio.CancelScope(shield=True), anyio.move_on_after(CANCEL_S):
            while not self._over:
                await self._wait()

    def cancel(self) -> None:
        """Ask the runtime to end the call; its result still comes."""
        if not self._over:
            self._connection.send(wire.frame(wire.CANCEL, self.id))

    async def receive(self) -> tuple[int, bytes] | None:
        """The next piece of output with its channel, or None when the call has ended.

        Raises:
            SandboxGone: The connection broke.
            WireError: The same, because of what the sandbox sent.
        """
        while not self._inbox:
            if self._over:
                self._check()
                return None
            await self._wait()
        channel, piece = self._inbox.popleft()
        self._take(len(piece))
        return channel, bytes(piece)

    async def result(self) -> Any:
        """What the call returned. Output that was not received is dropped.

        Raises:
            OSError: As the runtime reports it.
            SandboxGone: The connection broke.
            WireError: The same, because of what the sandbox sent.
        """
        while not self._over:
            if self._inbox:
                await self.receive()
            else:
                await self._wait()
        self._check()
        if self._failed:
            raise remote_error(self._value)
        return self._value

    async def send(self, payload: bytes | memoryview) -> bool:
        """Send input as the runtime takes it; False when the call has ended instead."""
        view = memoryview(payload)
        while view:
            while self._credit <= 0 and not self._over:
                await self._wait()
            if self._over:
                return False
            piece = view[: min(wire.CHUNK, self._credit)]
            self._credit -= len(piece)
            self._connection.send(wire.data(self.id, wire.PLAIN, piece), bulk=True)
            view = view[len(piece) :]
        return not self._over

    async def confirm(self) -> None:
        """Make sure that the sandbox lives, or raise `SandboxGone`."""
        await self._connection.confirm()

    def end_input(self) -> None:
        """Say that no more input will come."""
        if not self._over:
            self._connection.send(wire.frame(wire.END, self.id), bulk=True)

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._over

    @property
    def waiting(self) -> bool:
        """Whether output has come that was not received."""
        return bool(self._inbox)

    def received(self, payload: bytes) -> None:
        """The connection has a piece of output for it."""
        if len(payload) < 2:
            raise wire.Malformed("a data frame holds nothing")
        channel, piece = payload[0], payload[1:]
        if self._abandoned:
            self._take(len(piece))
            return
        self._held += len(piece)
        # Any credit left allows one whole piece more.
        if self._held > wire.WINDOW + wire.CHUNK:
            raise wire.Malformed("more data was sent than was allowed")
        if self._inbox and self._inbox[-1][0] == channel and len(self._inbox[-1][1]) < wire.CHUNK:
            # Many small pieces for one that is slow to take them must not cost more memory than their bytes.
            last = self._inbox[-1][1]
            if not isinstance(last, bytearray):
                last = bytearray(last)
                self._inbox[-1] = (channel, last)
            last += piece
        else:
            self._inbox.append((channel, piece))
        self._notify()

    def credited(self, amount: int) -> None:
        """The connection has more credit for it."""
        self._credit += amount
        if self._credit > wire.WINDOW:
            raise wire.Malformed("more credit was given than was used")
        self._notify()

    def ended(self, value: Any, *, failed: bool) -> None:
        """The connection has its result."""
        self._over, self._value, self._failed = True, value, failed
        self._notify()

    def broke(self) -> None:
        """The connection is gone."""
        self._over = True
        self._notify()

    def _check(self) -> None:
        if self._value is None and not self._failed:
            self._connection.check()

    def _take(self, amount: int) -> None:
        self._held -= amount
        self._consumed += amount
        if self._consumed >= wire.WINDOW // 2:
            self._connection.send(wire.credit(self.id, self._consumed))
            self._consumed = 0

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.set()

    async def _wait(self) -> None:
        # Input is sent and output is received at once: both may wait here.
        if self._changed is None or self._changed.is_set():
            self._changed = anyio.Event()
        await self._changed.wait()
