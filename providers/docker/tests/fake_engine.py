"""An engine that does what a test says: HTTP over a unix socket, in the test's own event loop."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import anyio
from anyio.abc import SocketStream

VERSION = {"ApiVersion": "1.41", "MinAPIVersion": "1.12", "Version": "20.10.0", "Os": "linux", "Arch": ""}
INFO = {"OSType": "linux", "Driver": "overlay2", "DriverStatus": [["Backing Filesystem", "extfs"]]}
IMAGE = {"Id": "sha256:" + "a" * 64, "Os": "linux", "Architecture": "", "Config": {"WorkingDir": "/w"}}


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    """Without the version."""
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass
class Answers:
    """What an answer is made of."""

    status: int = 200
    value: Any = None
    headers: dict[str, str] = field(default_factory=dict)


Handler = Callable[[Asked], Awaitable[Answers | None]]


@dataclass
class FakeEngine:
    """The engine, and what was asked of it."""

    url: str
    asked: list[Asked] = field(default_factory=list)
    version: dict[str, Any] = field(default_factory=lambda: dict(VERSION))
    info: dict[str, Any] = field(default_factory=lambda: dict(INFO))
    images: dict[str, dict[str, Any]] = field(default_factory=dict)
    containers: dict[str, dict[str, Any]] = field(default_factory=dict)
    handler: Handler | None = None
    """Asked first; None lets the engine answer as it would."""

    def calls(self, start: str) -> list[Asked]:
        """The requests whose method and path start like this."""
        return [asked for asked in self.asked if f"{asked.method} {asked.path}".startswith(start)]

    async def serve(self, stream: SocketStream) -> None:
        buffer = b""
        async with stream:
            try:
                while True:
                    while b"\r\n\r\n" not in buffer:
                        buffer += await stream.receive()
                    head, _, buffer = buffer.partition(b"\r\n\r\n")
                    asked, size = self._parse(head)
                    if size is None:
                        while not buffer.endswith(b"0\r\n\r\n"):
                            buffer += await stream.receive()
                        asked.body, buffer = buffer, b""
                    else:
                        while len(buffer) < size:
                            buffer += await stream.receive()
                        asked.body, buffer = buffer[:size], buffer[size:]
                    self.asked.append(asked)
                    answers = await self.handler(asked) if self.handler is not None else None
                    answers = answers or self._answer(asked)
                    if answers.status == 101:
                        await stream.send(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
                        await anyio.sleep_forever()
                    await stream.send(_encoded(answers))
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return

    def _parse(self, head: bytes) -> tuple[Asked, int | None]:
        first, *lines = head.decode().split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        parts = urlsplit(target)
        path = unquote(parts.path)
        if path.startswith("/v1."):
            path = path[path.index("/", 1) :]
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        size = None if headers.get("transfer-encoding") == "chunked" else int(headers.get("content-length", 0))
        return Asked(method, path, query, headers, b""), size

    def _answer(self, asked: Asked) -> Answers:
        path = asked.path
        if path == "/version":
            return Answers(value=self.version)
        if path == "/info":
            return Answers(value=self.info)
        if path == "/containers/create":
            name = asked.query["name"]
            self.containers[name] = json.loads(asked.body)
            return Answers(201, {"Id": name})
        if path == "/containers/json":
            wanted = json.loads(asked.query.get("filters", "{}")).get("label", [])
            listing = [
                {"Names": [f"/{name}"], "Labels": body["Labels"]}
                for name, body in self.containers.items()
                if {tuple(label.partition("=")[::2]) for label in wanted} <= set(body["Labels"].items())
            ]
            return Answers(value=listing)
        if path == "/networks":
            return Answers(value=[])
        if path == "/volumes":
            return Answers(value={"Volumes": None})
        if path.endswith("/attach"):
            return Answers(101)
        if path.endswith("/start"):
            return Answers(204)
        if asked.method == "DELETE":
            there = self.containers.pop(path.rpartition("/")[2], None)
            return Answers(204) if there else Answers(404, {"message": "no such container"})
        if path.startswith("/images/") and path.endswith("/json"):
            name = path.removeprefix("/images/").removesuffix("/json")
            found = self.images.get(name if ":" in name else f"{name}:latest")
            return Answers(value=found) if found else Answers(404, {"message": f"no such image: {name}"})
        if path == "/images/create":
            self.images[f"{asked.query['fromImage']}:{asked.query['tag']}"] = IMAGE
            return Answers(value={"status": "Pull complete"})
        return Answers(404, {"message": f"the fake engine knows no {asked.method} {path}"})


def _encoded(answers: Answers) -> bytes:
    body = b"" if answers.value is None else json.dumps(answers.value).encode() + b"\n"
    headers = {"Content-Length": str(len(body)), **answers.headers}
    if answers.status == 204:
        headers.pop("Content-Length")
    lines = [f"HTTP/1.1 {answers.status} X", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + body


@asynccontextmanager
async def fake_engine() -> AsyncIterator[FakeEngine]:
    """An engine for the time of the context."""
    with tempfile.TemporaryDirectory(prefix="agentix-fake-") as folder:
        path = Path(folder, "engine.sock")
        async with await anyio.create_unix_listener(path) as listener, anyio.create_task_group() as group:
            engine = FakeEngine(f"unix://{path}")
            group.start_soon(listener.serve, engine.serve)
            yield engine
            group.cancel_scope.cancel()
