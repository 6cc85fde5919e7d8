"""Sockets to the engine that belong to no event loop, so that they may be kept between uses."""

from __future__ import annotations

import errno
import os
import shlex
import socket

import anyio
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream

from agentix.api import HostError, SocketStream
from agentix.providers.docker.command_stream import open_command
from agentix.providers.docker.endpoint import Endpoint

_BACKLOG_S = 0.005
_CONNECT_S = 20.0


class EngineAbsent(HostError):
    """No engine answers, or it does not let us in."""

    default_detail = "engine"


async def connect(endpoint: Endpoint) -> tuple[ByteStream, socket.socket]:
    """Connect to the engine.

    Returns:
        The stream, and the socket that carries it.

    Raises:
        EngineAbsent: It does not answer, or refuses.
    """
    try:
        with anyio.fail_after(_CONNECT_S):
            if endpoint.path is not None:
                raw = await _connect_unix(endpoint.path)
                return SocketStream(raw), raw
            if endpoint.ssh:
                return await open_command(endpoint.ssh, broken=lambda reason: absent(endpoint, reason))
            raw = await _connect_tcp(endpoint.host, endpoint.port)
            stream = SocketStream(raw)
            if endpoint.tls is None:
                return stream, raw
            try:
                context = endpoint.tls
                return await TLSStream.wrap(
                    stream, hostname=endpoint.host, ssl_context=context, standard_compatible=False
                ), raw
            except BaseException:
                await anyio.aclose_forcefully(stream)
                raise
    except TimeoutError as error:
        raise absent(endpoint, f"no answer within {_CONNECT_S:g} s") from error
    except (anyio.BrokenResourceError, anyio.EndOfStream) as error:
        raise absent(endpoint, "it hung up") from error
    except OSError as error:
        raise absent(endpoint, error.strerror or str(error), denied=isinstance(error, PermissionError)) from error


def absent(endpoint: Endpoint, reason: str, *, denied: bool = False) -> EngineAbsent:
    """The one error for an engine that cannot be used."""
    if denied:
        return EngineAbsent(
            f"the container engine at {endpoint.url} does not let this user in: {reason}",
            hint="join the group `docker`, set DOCKER_HOST to an engine of your own, or use `--provider local`",
        )
    return EngineAbsent(f"no container engine answers at {endpoint.url}: {reason}", hint=_way_out(endpoint, reason))


def _way_out(endpoint: Endpoint, reason: str) -> str:
    if endpoint.ssh:
        command = shlex.join((*endpoint.ssh[:-1], "docker version"))
        return f"try `{command}`: it has to work without asking for anything"
    if endpoint.tls is not None and ("hung up" in reason or "CERTIFICATE" in reason):
        return "see whether ca.pem is of who signed the engine's certificate, and cert.pem one that it accepts"
    if endpoint.tls is None and endpoint.path is None and "hung up" in reason:
        return (
            "if it speaks TLS, set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH, or use a docker context with certificates"
        )
    return "start Docker or Podman, set DOCKER_HOST to one that runs, or use `--provider local`, which needs none"


async def _connect_unix(path: str) -> socket.socket:
    raw = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        raw.setblocking(False)
        while True:
            try:
                raw.connect(path)
            except BlockingIOError:
                # Its backlog is full, which says nothing when it will have room.
                await anyio.sleep(_BACKLOG_S)
            else:
                return raw
    except BaseException:
        raw.close()
        raise


async def _connect_tcp(host: str, port: int) -> socket.socket:
    error: OSError = ConnectionRefusedError(errno.ECONNREFUSED, "no address")
    for family, kind, protocol, _, address in await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        raw = socket.socket(family, kind, protocol)
        try:
            raw.setblocking(False)
            code = raw.connect_ex(address)
            if code == errno.EINPROGRESS:
                await anyio.wait_writable(raw)
                code = raw.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code == 0:
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return raw
        except BaseException:
            raw.close()
            raise
        raw.close()
        error = OSError(code, os.strerror(code))
    raise error
