"""What a forwarded connection may lead to on the host, and copying between the two."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from pathlib import Path
from typing import TypeAlias

import anyio
from anyio.abc import ByteStream

from agentix.errors import WireError
from agentix.runtime.forward import LOOPBACK
from agentix.sandbox.socket_stream import SocketStream

Handler: TypeAlias = Callable[[ByteStream], Awaitable[object]]
Target: TypeAlias = int | tuple[str, int] | str | os.PathLike[str] | Handler

_CONNECT_S = 10.0
_FULL_S = 0.01
_PIECE = 1 << 18


def handler_of(target: Target) -> Handler:
    """What to do with a connection.

    Raises:
        TypeError: The target is nothing that a connection can lead to.
        ValueError: A port is none.
    """
    if isinstance(target, int) and not isinstance(target, bool):
        target = (LOOPBACK, target)
    if isinstance(target, tuple) and len(target) == 2:
        host, port = target
        if not 0 < port < 65536:
            raise ValueError(f"{port} is not a port: 1 to 65535 are")
        return lambda stream: _carry(stream, lambda: _connect_tcp(host, port))
    if isinstance(target, str | os.PathLike):
        path = Path(target)
        return lambda stream: _carry(stream, lambda: _connect(socket.AF_UNIX, str(path)))
    if callable(target):
        return target
    raise TypeError(
        f"{target!r} is no target: a port, a host and a port, the path of a unix socket or an async function is one"
    )


async def _carry(stream: ByteStream, connect: Callable[[], Awaitable[SocketStream]]) -> None:
    """Connect to the target and copy both ways until both have ended."""
    with anyio.fail_after(_CONNECT_S):
        target = await connect()
    broken: list[Exception] = []

    async def copy(source: ByteStream, sink: ByteStream) -> None:
        try:
            while True:
                await sink.send(await source.receive(_PIECE))
        except anyio.EndOfStream:
            try:
                await sink.send_eof()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, WireError) as error:
            broken.append(error)
            group.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(copy, stream, target)
            await copy(target, stream)
    finally:
        with anyio.CancelScope(shield=True):
            await target.aclose()
    if broken:
        raise broken[0]


async def _connect_tcp(host: str, port: int) -> SocketStream:
    try:
        # Asking the resolver takes a thread, which an address needs not.
        return await _connect(socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET, (host, port))
    except ValueError:
        found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for position, (family, _, _, _, address) in enumerate(found, 1):
        try:
            stream = await _connect(family, address)
        except OSError:
            if position == len(found):
                raise
            continue
        return stream
    raise OSError(errno.EHOSTUNREACH, f"{host} has no address")


async def _connect(family: int, address: object) -> SocketStream:
    raw = socket.socket(family, socket.SOCK_STREAM)
    try:
        raw.setblocking(False)
        # Nothing tells when a unix socket has room again for one that waits.
        while (code := raw.connect_ex(address)) == errno.EAGAIN:  # type: ignore[arg-type]  # noqa: ASYNC110
            await anyio.sleep(_FULL_S)
        if code == errno.EINPROGRESS:
            await anyio.wait_writable(raw)
            code = raw.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        if family != socket.AF_UNIX:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return SocketStream(raw)
    except BaseException:
        raw.close()
        raise
