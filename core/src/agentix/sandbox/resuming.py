"""Dialling a sandbox again whose stream was lost, until it goes on or is known to be gone."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Any

import anyio

from agentix.errors import HostError, SandboxGone, WireError
from agentix.runtime import resume, wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import ByteStream

ATTEMPT_S = 10.0
"""How long one attempt may take."""
PAUSES_S = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Before the attempts, one after the other; before all later ones the last."""
STABLE_S = 5.0
"""A stream that is lost sooner is dialled again as if it had not come."""
MOST_ATTEMPTS = 60
"""As many streams as may fail or be lost soon, one after the other."""
_MARGIN = 0.9


class Resuming:
    """What outlives a stream to a sandbox.

    Args:
        bridge: Given the name of the server's socket, opens a fresh stream to it. It raises `SandboxGone` where there
            is nothing to go on with, and anything else where it may work later.
        grace_s: How long the server waits for the host to come back.
    """

    def __init__(self, bridge: Callable[[str], Awaitable[ByteStream]], *, grace_s: float) -> None:
        self.kept = resume.Kept()
        self.received = 0
        self._acknowledged = 0
        self._bridge = bridge
        self._grace_s = grace_s
        self._name = f"agentix-{secrets.token_hex(16)}"
        self._secret = secrets.token_bytes(resume.SECRET_BYTES)
        self._failed = 0
        self._since: float | None = None

    @property
    def terms(self) -> dict[str, Any]:
        """What the server is told in the first stream's hello."""
        return {"name": self._name.encode("ascii"), "secret": self._secret, "grace_s": float(self._grace_s)}

    @property
    def congested(self) -> bool:
        """Whether bulk data has to wait until some of what was sent has arrived."""
        return self.kept.size >= resume.KEPT

    def count(self, received: int) -> int | None:
        """Count what came; the total where it is time to acknowledge it."""
        self.received += received
        if self.received - self._acknowledged < resume.ACKNOWLEDGED_EVERY:
            return None
        self._acknowledged = self.received
        return self.received

    async def dial(self) -> tuple[ByteStream, list[bytes | bytearray]]:
        """A fresh stream, and what has to be sent on it before anything else.

        Raises:
            SandboxGone: There is nothing to go on with, or it could not be reached in time.
            WireError: What answered is not the sandbox's runtime.
        """
        now = anyio.current_time()
        if self._since is None or now - self._since >= STABLE_S:
            self._failed = 0
        deadline = now + self._grace_s * _MARGIN
        last: BaseException | None = None
        while True:
            pause = PAUSES_S[min(self._failed, len(PAUSES_S) - 1)]
            if anyio.current_time() + pause >= deadline or self._failed >= MOST_ATTEMPTS:
                gone = SandboxGone(f"the stream to the sandbox was lost and could not be had again: {last}")
                gone.__cause__ = last
                raise gone
            await anyio.sleep(pause)
            self._failed += 1
            try:
                with anyio.fail_after(min(ATTEMPT_S, deadline - anyio.current_time())):
                    dialled = await self._attempt()
            except (SandboxGone, WireError):
                raise
            except TimeoutError:
                last = HostError("the sandbox's runtime does not answer")
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                last = HostError("the new stream was lost at once")
            except (HostError, OSError) as error:
                last = error
            else:
                self._since = anyio.current_time()
                return dialled

    async def _attempt(self) -> tuple[ByteStream, list[bytes | bytearray]]:
        stream = await self._bridge(self._name)
        try:
            challenge = await _exactly(stream, resume.NONCE_BYTES)
            nonce = os.urandom(resume.NONCE_BYTES)
            await stream.send(resume.answer(self._secret, challenge, nonce, self.received))
            said = await _exactly(stream, resume.CONFIRMATION_BYTES)
            try:
                arrived = resume.received_by_runtime(self._secret, challenge, nonce, said)
                again = self.kept.take_back(arrived)
            except wire.Malformed as error:
                raise WireError(f"the sandbox's runtime broke the protocol: {error}") from error
        except BaseException:
            with anyio.CancelScope(shield=True):
                await anyio.aclose_forcefully(stream)
            raise
        self._acknowledged = self.received
        return stream, again


async def _exactly(stream: ByteStream, count: int) -> bytes:
    received = b""
    while len(received) < count:
        # Never more: what follows belongs to the frames.
        received += await stream.receive(count - len(received))
    return received
