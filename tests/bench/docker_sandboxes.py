"""Sandboxes of the provider `docker`, each with one command, against a bare loop over the same engine's API."""

from __future__ import annotations

import io
import secrets
import shutil
import sys
import tarfile
import time
from collections.abc import Awaitable, Callable

import anyio
from rates import rate
from table import Row, show

from agentix.api import SandboxConfig
from agentix.providers.docker import DockerProvider
from agentix.providers.docker.endpoint import find_endpoint
from agentix.providers.docker.engine import Engine

COUNT = 60
CONCURRENCY = 4
ROUNDS = 3
COMMANDS = 300
BARE_COMMANDS = 20


def rows() -> list[Row]:
    """The rows of this benchmark."""
    return anyio.run(_rows)


async def _rows() -> list[Row]:
    engine = Engine(find_endpoint(host=None, context=None))
    engine.keeps = True
    image = f"agentix-bench-{secrets.token_hex(4)}:1"
    started: list[str] = []
    sys.addaudithook(lambda event, _: started.append(event) if event in _PROCESSES else None)
    try:
        await _import_busybox(engine, image)
        async with DockerProvider() as provider:
            return await _measured(engine, provider, image, started)
    finally:
        with anyio.CancelScope(shield=True):
            await engine.call("DELETE", f"/images/{image}", query={"force": "1"}, doing="remove the image")
            await engine.aclose()


async def _measured(engine: Engine, provider: DockerProvider, image: str, started: list[str]) -> list[Row]:
    config = SandboxConfig(image=image)
    teardowns: list[float] = []

    async def one() -> None:
        async with provider.session(config) as sandbox:
            assert (await sandbox.exec(["true"])).ok
            began = time.perf_counter()
        teardowns.append(time.perf_counter() - began)

    async def bare() -> None:
        await _bare(engine, image)

    await one()
    await bare()
    started.clear()
    ours, theirs, cpu = [], [], []
    # In turns, so that whatever else the machine does falls on both.
    for _ in range(ROUNDS):
        theirs.append(await rate(bare, COUNT // ROUNDS, width=CONCURRENCY))
        used = time.process_time()
        ours.append(await rate(one, COUNT // ROUNDS, width=CONCURRENCY))
        cpu.append((time.process_time() - used) / (COUNT // ROUNDS))
    processes = len(started)
    async with provider.session(config) as sandbox:

        async def command() -> None:
            await sandbox.exec(["true"])

        latencies = await _latencies(command, COMMANDS)
        bare_latencies = await _latencies(lambda: _bare_exec(engine, sandbox.id), BARE_COMMANDS)
    return [
        Row(
            name=f"sandbox with one command, {CONCURRENCY} at a time",
            ours=max(ours),
            unit="/s",
            bare=max(theirs),
            ratio_target=0.95,
        ),
        Row(
            name="one more command in an open sandbox, p50",
            ours=latencies[len(latencies) // 2] * 1000,
            unit="ms",
            target=2,
            better="less",
            bare=bare_latencies[len(bare_latencies) // 2] * 1000,
        ),
        Row(
            name="one more command in an open sandbox, p99",
            ours=latencies[len(latencies) * 99 // 100] * 1000,
            unit="ms",
            better="less",
        ),
        Row(
            name=f"teardown, {CONCURRENCY} at a time, p50",
            ours=sorted(teardowns)[len(teardowns) // 2] * 1000,
            unit="ms",
            target=300,
            better="less",
        ),
        Row(name="CPU of this process for one sandbox", ours=min(cpu) * 1000, unit="ms", target=60, better="less"),
        Row(name="processes started on the host", ours=processes, unit="", target=0, better="less"),
    ]


_PROCESSES = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"})


async def _bare(engine: Engine, image: str) -> None:
    """Create, start, exec, remove, by the same HTTP client."""
    name = f"agentix-bench-{secrets.token_hex(6)}"
    body = {
        "Image": image,
        "Entrypoint": ["sleep", "600"],
        "HostConfig": {"NetworkMode": "none", "LogConfig": {"Type": "none"}},
    }
    await engine.call("POST", "/containers/create", query={"name": name}, body=body, doing="create")
    try:
        await engine.call("POST", f"/containers/{name}/start", doing="start")
        await _bare_exec(engine, name)
    finally:
        with anyio.CancelScope(shield=True):
            await engine.call("DELETE", f"/containers/{name}", query={"force": "1"}, doing="remove")


async def _bare_exec(engine: Engine, name: str) -> None:
    body = {"Cmd": ["true"], "AttachStdout": True, "AttachStderr": True}
    made = (await engine.call("POST", f"/containers/{name}/exec", body=body, doing="exec")).json()
    await engine.call("POST", f"/exec/{made['Id']}/start", body={"Detach": False}, doing="exec")
    assert (await engine.call("GET", f"/exec/{made['Id']}/json", doing="inspect")).json()["ExitCode"] == 0


async def _latencies(function: Callable[[], Awaitable[None]], count: int) -> list[float]:
    latencies = []
    for _ in range(count):
        began = time.perf_counter()
        await function()
        latencies.append(time.perf_counter() - began)
    return sorted(latencies)


async def _import_busybox(engine: Engine, image: str) -> None:
    busybox = shutil.which("busybox")
    assert busybox, "install busybox-static"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(busybox, arcname="bin/busybox")
        for name in ("sh", "sleep", "true"):
            entry = tarfile.TarInfo(f"bin/{name}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    repository, _, tag = image.partition(":")
    query = {"fromSrc": "-", "repo": repository, "tag": tag}
    async with engine.stream("POST", "/images/create", query=query, body=buffer.getvalue(), doing="import") as pieces:
        async for _ in pieces:
            pass


if __name__ == "__main__":
    show(rows())
