"""The engine's HTTP API: connections kept, the version agreed on, errors with a status."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import anyio

from agentix.api import HostError
from agentix.providers.docker.attached import AttachedStream
from agentix.providers.docker.connecting import EngineAbsent, absent, connect
from agentix.providers.docker.endpoint import Endpoint
from agentix.providers.docker.facts import Facts, agreed, no_engine, read_facts
from agentix.providers.docker.http import Body, HttpConnection, ProtocolError

CALL_S = 120.0
"""Seconds that a plain request may take; creating and removing queue up on a busy engine."""

FIRST_S = 10.0
"""Seconds that an engine may take to say what it is: who asks has to hear of one that hangs."""

_KEPT = 64
_ERROR_SIZE = 1 << 16


class EngineError(HostError):
    """The engine answered with an error.

    Args:
        status: The HTTP status.
        message: What it said.
        doing: What was asked of it.
        retry_after: Its header of that name.
    """

    default_detail = "engine"

    def __init__(self, status: int, message: str, *, doing: str, retry_after: str | None = None) -> None:
        full = "no space left on device" in message.lower()
        hint = "give the engine room: `docker system df`, `docker system prune`" if full else None
        super().__init__(f"the engine could not {doing}: {message}", detail="disk_full" if full else None, hint=hint)
        self.status = status
        self.reason = message
        self.retry_after = retry_after


@dataclass
class Answer:
    """A whole answer."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def json(self) -> Any:
        """The body's value."""
        return json.loads(self.body) if self.body else None


class Engine:
    """An engine at one address.

    Args:
        endpoint: The address.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.keeps = False
        """Whether connections are kept for the next request; `aclose` ends that."""
        self._idle: list[HttpConnection] = []
        self._facts: Facts | None = None
        self._asking = anyio.Lock()

    @property
    def known(self) -> Facts | None:
        """The facts, where it has been asked already."""
        return self._facts

    async def facts(self) -> Facts:
        """Ask it, once, what it is.

        Raises:
            EngineAbsent: It does not answer, or is none that can be used.
        """
        async with self._asking:
            if self._facts is None:
                ping = await self._first("/_ping", "say that it is there", ok=(404,))
                version = await self._about("/version", "tell its version")
                api = agreed(version, self.endpoint)
                info = await self._about(f"/v{api}/info", "describe itself")
                self._facts = read_facts(api, version, info, builder=ping.headers.get("builder-version", ""))
        return self._facts

    async def _about(self, path: str, doing: str) -> dict[str, Any]:
        try:
            said = (await self._first(path, doing)).json()
        except EngineError as error:
            if error.status >= 500:
                raise
            raise no_engine(self.endpoint, f"it {error.message.removeprefix('the engine ')}") from error
        except ValueError as error:
            raise no_engine(self.endpoint, f"{path} gives no JSON") from error
        if not isinstance(said, dict):
            raise no_engine(self.endpoint, f"{path} gives no object")
        return said

    async def _first(self, path: str, doing: str, *, ok: tuple[int, ...] = ()) -> Answer:
        return await self.call("GET", path, doing=doing, versioned=False, within_s=FIRST_S, ok=ok)

    async def call(
        self,
        method: str,
        path: str,
        *,
        doing: str,
        query: Mapping[str, str] | None = None,
        body: object = None,
        ok: tuple[int, ...] = (),
        within_s: float = CALL_S,
        versioned: bool = True,
    ) -> Answer:
        """A request with a whole answer.

        Args:
            method: The HTTP method.
            path: Below the version; its variable parts quoted by `segment`.
            doing: What this is about, for errors: "create the container".
            query: Parameters.
            body: Sent as JSON.
            ok: Statuses of 400 and above that are no error.
            within_s: Seconds that it may take.
            versioned: Whether the path needs the API's version.

        Raises:
            EngineAbsent: It does not answer.
            EngineError: It answers with an error.
        """
        target = await self._target(path, query, versioned=versioned)
        data, headers = b"", dict[str, str]()
        if body is not None:
            data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
        try:
            with anyio.fail_after(within_s):
                async with self._exchange(method, target, headers=headers, body=data) as (connection, status, fields):
                    answer = Answer(status, fields, b"".join([piece async for piece in connection.body()]))
        except TimeoutError as error:
            raise EngineAbsent(
                f"the container engine at {self.endpoint.url} did not {doing} within {within_s:g} s",
                hint="it hangs or is overloaded: look at its log, restart it, or run fewer trials at a time",
            ) from error
        if answer.status >= 400 and answer.status not in ok:
            raise _error(answer, doing)
        return answer

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        doing: str,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Body = b"",
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """A request whose answer's body is read as it comes.

        Raises:
            EngineAbsent: It does not answer.
            EngineError: It answers with an error.
        """
        target = await self._target(path, query, versioned=True)
        async with self._exchange(method, target, headers=headers or {}, body=body) as (connection, status, fields):
            if status >= 400:
                said = b"".join([piece async for piece in connection.body()])[:_ERROR_SIZE]
                raise _error(Answer(status, fields, said), doing)
            yield connection.body()

    async def attach(self, container: str) -> AttachedStream:
        """Take over stdin, stdout and stderr of a container, which need not run yet.

        Raises:
            EngineAbsent: The engine does not answer.
            EngineError: There is no such container, or it cannot be attached to.
        """
        parts = {"stream": "1", "stdin": "1", "stdout": "1", "stderr": "1"}
        return await self._taken_over(
            f"/containers/{segment(container)}/attach", "attach to the container", query=parts
        )

    async def execute(self, container: str, argv: Sequence[str]) -> AttachedStream:
        """Start a program in a container that runs, as root, and take over its stdin, stdout and stderr.

        Raises:
            EngineAbsent: The engine does not answer.
            EngineError: There is no such container, it does not run, or the program cannot be started.
        """
        streams = {"AttachStdin": True, "AttachStdout": True, "AttachStderr": True, "Tty": False}
        path = f"/containers/{segment(container)}/exec"
        body = {**streams, "Cmd": [*argv], "User": "0:0"}
        made = (await self.call("POST", path, body=body, doing="prepare a program in the container")).json()
        start = f"/exec/{segment(made['Id'])}/start"
        return await self._taken_over(start, "start a program in the container", body={"Detach": False, "Tty": False})

    async def _taken_over(
        self, path: str, doing: str, *, query: Mapping[str, str] | None = None, body: object = None
    ) -> AttachedStream:
        target = await self._target(path, query, versioned=True)
        headers = {"Connection": "Upgrade", "Upgrade": "tcp"}
        data = b""
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        connection = HttpConnection(*await connect(self.endpoint))
        try:
            with anyio.fail_after(CALL_S):
                status, fields = await self._begin(connection, "POST", target, headers=headers, body=data)
                if status == 101:
                    return AttachedStream(connection.stream, connection.rest())
                said = b"".join([piece async for piece in connection.body()])
                raise _error(Answer(status, fields, said), doing)
        except ProtocolError as error:
            await connection.aclose()
            raise absent(self.endpoint, str(error)) from error
        except TimeoutError as error:
            await connection.aclose()
            raise EngineAbsent(f"the container engine at {self.endpoint.url} did not {doing}") from error
        except BaseException:
            await connection.aclose()
            raise

    async def aclose(self) -> None:
        """Hang up."""
        self.keeps = False
        while self._idle:
            await self._idle.pop().aclose()

    async def _target(self, path: str, query: Mapping[str, str] | None, *, versioned: bool) -> str:
        prefix = f"/v{(await self.facts()).api}" if versioned else ""
        return f"{prefix}{path}?{urlencode(query)}" if query else f"{prefix}{path}"

    @asynccontextmanager
    async def _exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: Body
    ) -> AsyncIterator[tuple[HttpConnection, int, dict[str, str]]]:
        connection, status, fields = await self._answered(method, target, headers=headers, body=body)
        try:
            yield connection, status, fields
            if self.keeps and len(self._idle) < _KEPT and connection.renew():
                self._idle.append(connection)
                return
        except ProtocolError as error:
            await connection.aclose()
            raise absent(self.endpoint, str(error)) from error
        except BaseException:
            await connection.aclose()
            raise
        await connection.aclose()

    async def _answered(
        self, method: str, target: str, *, headers: Mapping[str, str], body: Body
    ) -> tuple[HttpConnection, int, dict[str, str]]:
        while True:
            connection = self._idle.pop() if self._idle else HttpConnection(*await connect(self.endpoint))
            if not connection.is_silent():
                await connection.aclose()
                continue
            kept = connection.used
            try:
                return connection, *await self._begin(connection, method, target, headers=headers, body=body)
            except EngineAbsent:
                await connection.aclose()
                # An engine that was restarted has closed what was kept; asking twice must then do no harm.
                if not kept or method not in ("GET", "DELETE"):
                    raise
            except BaseException:
                await connection.aclose()
                raise

    async def _begin(
        self, connection: HttpConnection, method: str, target: str, *, headers: Mapping[str, str], body: Body
    ) -> tuple[int, dict[str, str]]:
        try:
            return await connection.request(method, target, headers=headers, body=body)
        except ProtocolError as error:
            raise absent(self.endpoint, str(error)) from error


def segment(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")


def _error(answer: Answer, doing: str) -> EngineError:
    try:
        message = answer.json()["message"]
    except (ValueError, TypeError, KeyError):
        message = answer.body.decode("utf-8", "replace").strip() or f"HTTP status {answer.status}"
    return EngineError(answer.status, str(message), doing=doing, retry_after=answer.headers.get("retry-after"))
