"""A connection that somebody in a sandbox has made, as a stream on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream

from agentix.errors import HostError, WireError
from agentix.runtime import wire
from agentix.runtime.forward import EVENTS, INPUT_ENDED, OUTPUT_ENDED

if TYPE_CHECKING:
    from agentix.sandbox.call import Call

_LINGER_S = 5.0
"""How long whoever has connected may take to read what was sent before the end."""


class ForwardedStream(ByteStream):
    """A connection that somebody in the sandbox has made."""

    def __init__(self, call: Call, *, events: bytes) -> None:
        self._call = call
        self._rest = memoryview(b"")
        self._input_ended = self._output_ended = self._said_end = self._closed = False
        self._note(events)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Receive what there is, at least one byte.

        Raises:
            EndOfStream: The other side will send no more.
            ClosedResourceError: This side has closed it.
            BrokenResourceError: It was reset, or the sandbox is gone.
        """
        await anyio.lowlevel.checkpoint_if_cancelled()
        while not self._rest:
            if self._closed:
                raise anyio.ClosedResourceError
            if self._output_ended:
                raise anyio.EndOfStream
            await self._take()
        piece, self._rest = bytes(self._rest[:max_bytes]), self._rest[max_bytes:]
        return piece

    async def send(self, item: bytes) -> None:
        """Send all of it.

        Raises:
            ClosedResourceError: This side has said that it sends no more.
            BrokenResourceError: The other side is not there any more.
        """
        await anyio.lowlevel.checkpoint_if_cancelled()
        if self._closed or self._said_end:
            raise anyio.ClosedResourceError
        if not await self._call.send(item):
            raise anyio.BrokenResourceError

    async def send_eof(self) -> None:
        """Say that nothing more will be sent; receiving goes on."""
        await anyio.lowlevel.checkpoint_if_cancelled()
        self._end()

    async def aclose(self) -> None:
        """Say that nothing more will be sent, and receive no more."""
        self._end()
        self._closed = True
        self._rest = memoryview(b"")
        await anyio.lowlevel.checkpoint()

    async def finish(self) -> None:
        """End it so that what was sent arrives; what comes meanwhile is dropped."""
        self._end()
        with anyio.move_on_after(_LINGER_S):
            while not self._input_ended and not self._call.over:
                self._rest = memoryview(b"")
                try:
                    await self._take()
                except anyio.BrokenResourceError:
                    return

    def _end(self) -> None:
        if not self._said_end:
            self._said_end = True
            self._call.end_input()

    async def _take(self) -> None:
        try:
            received = await self._call.receive()
            if received is None:
                value = await self._call.result()
        except WireError:
            raise
        except HostError as error:
            raise anyio.BrokenResourceError from error
        if received is None:
            if not isinstance(value, dict) or value.get("reset") is not False:
                raise anyio.BrokenResourceError
            self._input_ended = self._output_ended = True
        elif received[0] == wire.PLAIN and not self._output_ended:
            self._rest = memoryview(received[1])
        elif received[0] == EVENTS:
            self._note(received[1])
        else:
            raise WireError("the sandbox's runtime sent data of a connection after its end")

    def _note(self, events: bytes) -> None:
        if events.strip(INPUT_ENDED + OUTPUT_ENDED):
            raise WireError("the sandbox's runtime sent an event of a connection that is none")
        self._input_ended = self._input_ended or INPUT_ENDED in events
        self._output_ended = self._output_ended or OUTPUT_ENDED in events
