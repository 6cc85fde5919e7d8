"""Reaches into the services beside a sandbox, through the engine: no runtime of ours is in them."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import IO, Any

import anyio
import anyio.to_thread

from agentix.api import EnvFailed, ExecResult, HostError, unpack_tar
from agentix.providers.docker.compose_project import PROJECT
from agentix.providers.docker.engine import Engine, EngineError, segment

_HEAD = 8
_ERR = 2
_MAX_BYTES = 4 << 30
_MAX_ENTRIES = 200_000
_TIMED_OUT = 124


class Services:
    """The services of sandboxes on one engine.

    Args:
        engine: The engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def execute(
        self,
        sandbox_id: str,
        service: str,
        command: str | Sequence[str],
        *,
        user: str | None,
        timeout_s: float | None,
        output_limit: int,
    ) -> ExecResult:
        """Run a command in a service; see `ReachesServices.service_exec`."""
        container = await self._container(sandbox_id, service)
        body: dict[str, Any] = {
            "Cmd": ["sh", "-c", command] if isinstance(command, str) else [*command],
            "AttachStdout": True,
            "AttachStderr": True,
            **({} if user is None else {"User": user}),
        }
        path = f"/containers/{segment(container)}/exec"
        doing = f"run a command in the service {service}"
        try:
            made = (await self._engine.call("POST", path, body=body, doing=doing)).json()
        except EngineError as error:
            if error.status in (404, 409):
                raise EnvFailed(f"the service {service} does not run: {error.reason}", detail="compose") from error
            raise
        output, begun = _Output(output_limit), time.perf_counter()
        timed_out = True
        with anyio.move_on_after(timeout_s):
            start, headers = f"/exec/{segment(made['Id'])}/start", {"Content-Type": "application/json"}
            flags = json.dumps({"Detach": False, "Tty": False}).encode()
            async with self._engine.stream("POST", start, headers=headers, body=flags, doing=doing) as pieces:
                async for piece in pieces:
                    output.feed(piece)
            timed_out = False
        code = _TIMED_OUT
        if not timed_out:
            answer = await self._engine.call("GET", f"/exec/{segment(made['Id'])}/json", doing=doing)
            code = int(answer.json()["ExitCode"])
        return ExecResult(
            exit_code=code,
            stdout=output.kept(0),
            stderr=output.kept(1),
            timed_out=timed_out,
            duration_s=time.perf_counter() - begun,
            stdout_bytes=output.sizes[0],
            stderr_bytes=output.sizes[1],
            truncated=any(size > output_limit for size in output.sizes),
        )

    async def download(self, sandbox_id: str, service: str, remote: str, local: Path) -> Sequence[str]:
        """Copy a file or a tree out of a service; see `ReachesServices.service_download`."""
        container = await self._container(sandbox_id, service)
        doing = f"copy {remote} out of the service {service}"
        path = f"/containers/{segment(container)}/archive"
        with tempfile.TemporaryFile() as file:
            try:
                async with self._engine.stream("GET", path, query={"path": remote}, doing=doing) as pieces:
                    await _spool(file, pieces, what=f"{remote} of the service {service}")
            except EngineError as error:
                if error.status == 404:
                    raise FileNotFoundError(2, "no such file or directory", remote) from error
                raise
            return await anyio.to_thread.run_sync(_unpack, file, local)

    async def _container(self, sandbox_id: str, service: str) -> str:
        labels = [f"{PROJECT}={sandbox_id}", f"com.docker.compose.service={service}"]
        query = {"all": "1", "filters": json.dumps({"label": labels})}
        found = (await self._engine.call("GET", "/containers/json", query=query, doing="find a service")).json()
        if not found:
            raise EnvFailed(f"there is no service {service!r} beside the sandbox {sandbox_id}", detail="compose")
        return str(found[0]["Id"])


class _Output:
    """Stdout and stderr from the engine's frames, of each the beginning and the end where it is above a limit."""

    def __init__(self, limit: int) -> None:
        self.sizes = [0, 0]
        self._limits = (limit - limit // 2, limit // 2)
        self._heads = (bytearray(), bytearray())
        self._tails = (bytearray(), bytearray())
        self._buffer = bytearray()
        self._left = 0
        self._kind = 0

    def kept(self, kind: int) -> bytes:
        return bytes(self._heads[kind] + self._tails[kind])

    def _keep(self, kind: int, part: bytes) -> None:
        self.sizes[kind] += len(part)
        head, tail = self._heads[kind], self._tails[kind]
        room = self._limits[0] - len(head)
        head += part[:room]
        tail += part[room:]
        del tail[: max(0, len(tail) - self._limits[1])]

    def feed(self, piece: bytes) -> None:
        self._buffer += piece
        while True:
            if self._left:
                part = bytes(self._buffer[: self._left])
                if not part:
                    return
                del self._buffer[: len(part)]
                self._left -= len(part)
                self._keep(self._kind, part)
            elif len(self._buffer) >= _HEAD:
                self._kind = int(self._buffer[0] == _ERR)
                self._left = int.from_bytes(self._buffer[4:_HEAD], "big")
                del self._buffer[:_HEAD]
            else:
                return


async def _spool(file: IO[bytes], pieces: AsyncIterator[bytes], *, what: str) -> None:
    size = 0
    async for piece in pieces:
        size += len(piece)
        if size > _MAX_BYTES:
            raise HostError(f"{what} is larger than {_MAX_BYTES >> 30} GiB", detail="too_large")
        await anyio.to_thread.run_sync(file.write, piece)
    file.seek(0)


def _unpack(file: IO[bytes], local: Path) -> list[str]:
    """Put what an archive holds at a path; it comes out of a task and is not trusted."""
    local.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".service-", dir=local.parent) as place:
        refused = unpack_tar(file, Path(place), max_bytes=_MAX_BYTES, max_entries=_MAX_ENTRIES)
        for top in sorted(Path(place).iterdir()):
            if local.is_dir() and not local.is_symlink():
                shutil.rmtree(local)
            else:
                local.unlink(missing_ok=True)
            top.rename(local)
            break
    return [f"{os.fsdecode(one.path)}: {one.reason}" if one.path else one.reason for one in refused]
