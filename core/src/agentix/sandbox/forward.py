"""Ports of a sandbox's loopback that lead to the host, through the stream to its runtime."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

import anyio

from agentix.errors import HostError, WireError
from agentix.runtime import wire
from agentix.runtime.forward import EVENTS, LOOPBACK, OPENED
from agentix.sandbox.forward_stream import ForwardedStream
from agentix.sandbox.forward_target import Handler

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from agentix.sandbox.connection import Connection

_LOG = logging.getLogger("agentix.sandbox.forward")

MAX_CONNECTIONS = 128
_AHEAD = 8
"""How many connections are asked for before somebody connects."""


class ForwardAddress(NamedTuple):
    """Where something on the host is reached inside a sandbox."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """As a base URL, for what speaks HTTP."""
        return f"http://{self}"


@asynccontextmanager
async def forward(
    connection: Connection, handler: Handler, *, port: int, most: int, sandbox_id: str
) -> AsyncIterator[ForwardAddress]:
    """Open a port in the sandbox and serve what comes; see `Sandbox.forward`."""
    error: BaseException | None = None
    async with connection.call("forward", {"port": port}) as call:
        received = await call.receive()
        if received is None:
            # A listener that could not be opened says why.
            await call.result()
            raise WireError("the sandbox's runtime opened a port and closed it again")
        address = ForwardAddress(LOOPBACK, _port(received[1]))
        # What is raised inside is raised again outside of the group, which would wrap it.
        async with anyio.create_task_group() as group:
            service = _Service(connection, call.id, handler, group=group, most=most, name=f"{sandbox_id}, {address}")
            service.ask()
            try:
                yield address
            except BaseException as raised:
                error = raised
            # The port goes before the connections: who is cut off must not get into it again.
            call.cancel()
            group.cancel_scope.cancel()
        if error is not None:
            raise error


def _port(payload: bytes) -> int:
    try:
        port = wire.decode(payload)
    except wire.Malformed as error:
        raise WireError(f"the sandbox's runtime opened a port that is none: {error}") from error
    if not isinstance(port, int) or not 0 < port < 65536:
        raise WireError("the sandbox's runtime opened a port that is none")
    return port


class _Service:
    """Asks the runtime for connections, always a few ahead and never for more than there may be."""

    def __init__(
        self, connection: Connection, listener: int, handler: Handler, *, group: TaskGroup, most: int, name: str
    ) -> None:
        self._connection = connection
        self._listener = listener
        self._handler = handler
        self._group = group
        self._most = most
        self._name = name
        self._idle = 0
        self._all = 0

    def ask(self) -> None:
        """Ask for as many connections as there should be ahead."""
        while self._idle < _AHEAD and self._all < self._most:
            self._idle += 1
            self._all += 1
            self._group.start_soon(self._serve)

    async def _serve(self) -> None:
        opened = False
        try:
            async with self._connection.call("accept", {"listener": self._listener}) as call:
                received = await call.receive()
                if received is None:
                    return
                if received[0] != EVENTS or not received[1].startswith(OPENED):
                    raise WireError("the sandbox's runtime sent data of a connection that nobody has made")
                opened = True
                self._idle -= 1
                self.ask()
                await self._handle(ForwardedStream(call, events=received[1][1:]))
        except HostError as error:
            # The sandbox is gone, which every other call says as well.
            _LOG.debug("a connection from %s ended: %s", self._name, error)
            return
        finally:
            self._all -= 1
            self._idle -= not opened
        self.ask()

    async def _handle(self, stream: ForwardedStream) -> None:
        try:
            await self._handler(stream)
            await stream.finish()
        except WireError:
            raise
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, ConnectionError) as error:
            _LOG.debug("a connection from %s broke: %r", self._name, error)
        except Exception as error:
            _LOG.warning("a connection from %s was reset: %r", self._name, error, exc_info=not _is_refusal(error))


def _is_refusal(error: Exception) -> bool:
    """Whether it says all without a traceback."""
    return isinstance(error, OSError | TimeoutError)
