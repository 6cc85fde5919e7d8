"""Python calls in a sandbox of the provider `local`: one at a time, a thousand at once, and 64 MiB there and back."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
from table import Row, show

from agentix.api import Sandbox, SandboxConfig, build_bundle
from agentix.providers.local import LocalProvider

CALLS = 500
AT_ONCE = 1000
BLOCKING = 200
ROUNDS = 3
ECHO = 64 << 20

MODULE = "bench_remote"
FUNCTIONS = """
async def nothing() -> None: ...
def nothing_blocking() -> None: ...
async def echo(data: bytes) -> bytes: return data
"""
PROJECT = """
[project]
name = "bench"
version = "1"
dependencies = ["bench-remote"]
[tool.uv]
package = false
"""


def rows() -> list[Row]:
    """The rows of this benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": folder}
        reference = build_bundle(_project(Path(folder)), name="bench-remote").digest
        sys.path.append(folder)
        return anyio.run(_rows, reference, import_module(MODULE))


def _project(folder: Path) -> Path:
    (folder / f"{MODULE}.py").write_text(FUNCTIONS)
    with zipfile.ZipFile(folder / f"{MODULE}-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{MODULE}.py", FUNCTIONS)
        wheel.writestr(f"{MODULE}-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: bench-remote\nVersion: 1\n")
        wheel.writestr(f"{MODULE}-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{MODULE}-1.dist-info/RECORD", "")
    project = folder / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(PROJECT)
    return project


async def _rows(reference: str, functions: ModuleType) -> list[Row]:
    async with LocalProvider() as provider, provider.session(SandboxConfig(bundle=reference)) as sandbox:
        began = time.perf_counter()
        await sandbox.remote(functions.nothing)
        first = time.perf_counter() - began
        one = await _latencies(sandbox, functions.nothing, CALLS)
        blocking = await _latencies(sandbox, functions.nothing_blocking, BLOCKING)
        at_once = max([await _rate(sandbox, functions.nothing, AT_ONCE) for _ in range(ROUNDS)])
        blocking_at_once = max([await _rate(sandbox, functions.nothing_blocking, BLOCKING) for _ in range(ROUNDS)])
        data = os.urandom(ECHO)
        echo = max([await _echo(sandbox, functions.echo, data) for _ in range(ROUNDS)])
    return [
        Row(name="first call, which starts the worker", ours=first * 1000, unit="ms", better="less"),
        Row(name="async call that does nothing, p50", ours=_part(one, 50), unit="ms", target=2, better="less"),
        Row(name="async call that does nothing, p99", ours=_part(one, 99), unit="ms", better="less"),
        Row(name=f"{AT_ONCE:,} async calls at once", ours=at_once, unit="/s", target=1000),
        Row(name="blocking call, in a process of its own, p50", ours=_part(blocking, 50), unit="ms", better="less"),
        Row(name=f"{BLOCKING} blocking calls at once", ours=blocking_at_once, unit="/s"),
        Row(name="64 MiB as argument and back as result", ours=echo, unit="MiB/s", target=100),
    ]


def _part(latencies: list[float], percent: int) -> float:
    return latencies[len(latencies) * percent // 100] * 1000


async def _latencies(sandbox: Sandbox, function: Callable[..., Any], count: int) -> list[float]:
    latencies = []
    for _ in range(count):
        began = time.perf_counter()
        await sandbox.remote(function)
        latencies.append(time.perf_counter() - began)
    return sorted(latencies)


async def _rate(sandbox: Sandbox, function: Callable[..., Any], count: int) -> float:
    began = time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(sandbox.remote, function)
    return count / (time.perf_counter() - began)


async def _echo(sandbox: Sandbox, function: Callable[..., Any], data: bytes) -> float:
    began = time.perf_counter()
    received = await sandbox.remote(function, data)
    seconds = time.perf_counter() - began
    assert received == data
    return len(data) / 2**20 / seconds


if __name__ == "__main__":
    show(rows())
