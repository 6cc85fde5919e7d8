"""Python calls behave the same on every provider."""

from __future__ import annotations

import importlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentix.api import (
    RemoteError,
    ResultError,
    Sandbox,
    SandboxConfig,
    UsageError,
    WorkerExited,
    build_bundle,
)

pytestmark = pytest.mark.anyio

FUNCTIONS = """
import asyncio, logging, os, platform, signal, sys, time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class Grade(Enum):
    GOOD = "good"


@dataclass
class Report:
    path: Path
    grade: Grade
    numbers: tuple[int, ...]


async def report(*numbers: int) -> Report:
    return Report(Path("/x"), Grade.GOOD, numbers)


def where() -> dict[str, str]:
    return {"file": __file__, "cwd": os.getcwd(), "os": os.__file__, "home": os.environ["HOME"]}


async def echo(data: bytes) -> bytes:
    return data


def user() -> int:
    return os.getuid()


def fail() -> None:
    raise LookupError("nothing here")


def odd():
    return {"a": object()}


def end_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def end_worker() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def die() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def eat() -> int:
    kept = []
    while True:
        kept.append(bytearray(b"x") * (16 << 20))


def sleep() -> None:
    time.sleep(600)


async def worker() -> int:
    return os.getpid()


async def count(most: int) -> AsyncIterator[int]:
    for number in range(most):
        await asyncio.sleep(0)
        yield number


def count_blocking(most: int) -> Iterator[int]:
    yield from range(most)


def talk() -> None:
    print("printed")
    logging.getLogger("kit").warning("logged")
"""
PROJECT = """
[project]
name = "kit"
version = "1"
dependencies = ["remote-kit"]
[tool.uv]
package = false
"""


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def kit() -> Iterator[Any]:
    """A bundle with the functions, and the module as the host has it."""
    folder = Path(tempfile.mkdtemp(prefix="agentix-test-"))
    folder.chmod(0o755)
    (folder / "remote_kit.py").write_text(FUNCTIONS)
    with zipfile.ZipFile(folder / "remote_kit-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("remote_kit.py", FUNCTIONS)
        wheel.writestr("remote_kit-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: remote-kit\nVersion: 1\n")
        wheel.writestr("remote_kit-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("remote_kit-1.dist-info/RECORD", "")
    (folder / "project").mkdir()
    (folder / "project/pyproject.toml").write_text(PROJECT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTIX_CACHE_DIR", str(folder / "cache"))
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(folder))
        patch.setattr(sys, "path", [*sys.path, str(folder)])
        build_bundle(folder / "project", name="kit")
        yield importlib.import_module("remote_kit")
    sys.modules.pop("remote_kit", None)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """An image with nothing in it but a file."""
    name = f"agentix-test-{uuid.uuid4().hex[:8]}"
    try:
        empty = subprocess.run(["tar", "-c", "--files-from", "/dev/null"], capture_output=True, check=True)
        subprocess.run(["docker", "import", "-", name], input=empty.stdout, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no container engine: {error}")
    yield name
    subprocess.run(["docker", "rmi", "-f", name], capture_output=True, check=False)


@pytest.fixture(params=["inline", "local", pytest.param("docker", marks=pytest.mark.real)])
async def options(request: pytest.FixtureRequest, kit: Any, anyio_backend: str) -> AsyncIterator[tuple[Any, Any]]:
    """An open provider, and what its sandboxes are asked for."""
    wanted: dict[str, Any] = {"bundle": "kit"}
    if request.param == "docker":
        from agentix.providers.docker import DockerProvider as Provider

        wanted["image"] = request.getfixturevalue("image")
    elif request.param == "local":
        from agentix.providers.local import LocalProvider as Provider  # type: ignore[assignment]
    else:
        from agentix.providers.inline import InlineProvider as Provider  # type: ignore[assignment]
    async with Provider() as provider:
        yield provider, wanted


@pytest.fixture
async def sandbox(options: tuple[Any, Any]) -> AsyncIterator[Sandbox]:
    provider, wanted = options
    async with provider.session(SandboxConfig(**wanted)) as opened:
        yield opened


async def test_functions_of_the_bundle_run_with_the_standard_library_of_the_runtime(sandbox: Sandbox, kit: Any) -> None:
    where = await sandbox.remote(kit.where)
    assert where["cwd"] == sandbox.workdir
    assert sandbox.bundle is not None and where["file"] == f"{sandbox.bundle.site}/remote_kit.py"
    if sandbox.provider_name != "inline":
        assert where["os"].startswith("/agentix/runtime/")
    assert await sandbox.remote(os.path.join, "a", "b") == "a/b"


async def test_results_are_rebuilt_and_of_any_size(sandbox: Sandbox, kit: Any) -> None:
    assert await sandbox.remote(kit.report, 1, 2) == kit.Report(Path("/x"), kit.Grade.GOOD, (1, 2))
    data = os.urandom(3 << 20)
    assert await sandbox.remote(kit.echo, data) == data
    assert [n async for n in sandbox.remote_iter(kit.count, 200)] == list(range(200))
    assert [n async for n in sandbox.remote_iter(kit.count_blocking, 200)] == list(range(200))


async def test_what_goes_wrong_is_told_and_ends_one_call(sandbox: Sandbox, kit: Any) -> None:
    before = await sandbox.remote(kit.worker)
    with pytest.raises(RemoteError, match="LookupError: nothing here") as caught:
        await sandbox.remote(kit.fail)
    assert "remote_kit.py" in caught.value.traceback
    with pytest.raises(ResultError, match=r"result\['a'\] is of type object"):
        await sandbox.remote(kit.odd)
    with pytest.raises(WorkerExited, match="SIGSEGV"):
        await sandbox.remote(kit.die)
    with pytest.raises(TimeoutError):
        await sandbox.call(kit.sleep, timeout_s=0.5)
    assert await sandbox.remote(kit.worker) == before
    await sandbox.kill_all()
    assert await sandbox.remote(kit.worker) != before


async def test_a_thousand_calls_run_at_once(sandbox: Sandbox, kit: Any) -> None:
    results: list[bytes] = []

    async def one(number: int) -> None:
        results.append(await sandbox.remote(kit.echo, b"%d" % number))

    async with anyio.create_task_group() as group:
        for number in range(1000):
            group.start_soon(one, number)
    assert sorted(results, key=int) == [b"%d" % number for number in range(1000)]


async def test_logs_arrive(sandbox: Sandbox, kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await sandbox.remote(kit.talk)
    name = f"agentix.sandbox.{sandbox.id}"
    said = [(level, text) for found, level, text in caplog.record_tuples if found == name]
    assert sorted(said) == [(logging.INFO, "printed"), (logging.WARNING, "kit: logged")]


async def test_without_a_bundle_there_is_the_standard_library_and_inline_the_hosts(
    options: tuple[Any, Any], kit: Any
) -> None:
    provider, wanted = options
    async with provider.session(SandboxConfig(**{**wanted, "bundle": None})) as sandbox:
        assert await sandbox.remote(os.path.join, "a", "b") == "a/b"
        if sandbox.provider_name == "inline":
            assert (await sandbox.remote(kit.where))["file"] == kit.__file__
        else:
            with pytest.raises(UsageError, match="the module remote_kit of where is not in the sandbox"):
                await sandbox.remote(kit.where)


async def test_running_out_of_memory_ends_that_call_only(options: tuple[Any, Any], kit: Any) -> None:
    provider, wanted = options
    if provider.name != "docker":
        pytest.skip("only here a limit of memory is the sandbox's own on every machine")
    async with provider.session(SandboxConfig(**wanted, memory_mb=200)) as sandbox:
        before = await sandbox.remote(kit.worker)
        with pytest.raises(WorkerExited, match="no memory left") as caught:
            await sandbox.remote(kit.eat)
        assert caught.value.oom and caught.value.signal == "SIGKILL"
        assert await sandbox.remote(kit.worker) == before


async def test_what_was_killed_for_memory_before_is_not_why_another_call_ends(
    options: tuple[Any, Any], kit: Any
) -> None:
    provider, wanted = options
    if provider.name != "docker":
        pytest.skip("only here a limit of memory is the sandbox's own on every machine")

    async def killed(function: Any, message: str) -> bool:
        with pytest.raises(WorkerExited, match=message) as caught:
            await sandbox.remote(function)
        return bool(caught.value.oom)

    async with provider.session(SandboxConfig(**wanted, memory_mb=200)) as sandbox:
        assert await killed(kit.eat, "no memory left")
        assert not await killed(kit.end_worker, "SIGKILL$")
        assert await sandbox.remote(kit.worker)
        assert (await sandbox.exec("x=a; while :; do x=$x$x; done")).exit_code != 0
        assert not await killed(kit.end_itself, "SIGKILL$")
        assert not await killed(kit.end_worker, "SIGKILL$")
        assert await killed(kit.eat, "no memory left")


async def test_a_call_runs_as_the_sandboxs_user(options: tuple[Any, Any], kit: Any) -> None:
    provider, wanted = options
    if provider.name != "docker":
        pytest.skip("only containers have any user there is on every machine")
    async with provider.session(SandboxConfig(**wanted, user="1234")) as sandbox:
        assert await sandbox.remote(kit.user) == 1234
