"""A service of the host, reached from sandboxes without network, the same on every provider."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream

from agentix.api import Sandbox, SandboxConfig, load

pytestmark = [pytest.mark.real, pytest.mark.anyio, pytest.mark.xdist_group("engine")]


def load_images() -> ModuleType:
    spec = importlib.util.spec_from_file_location("e2e_images", Path(__file__).with_name("images.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


IMAGES = load_images()
BUSYBOX = shutil.which("busybox")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    why = IMAGES.missing()
    if why is not None:
        pytest.skip(why)
    name = f"agentix-e2e-{uuid.uuid4().hex[:8]}:1"
    IMAGES.import_busybox(name)
    yield name
    IMAGES.remove(name)


@pytest.fixture(params=["inline", "local", "docker"])
async def sandbox(request: pytest.FixtureRequest, anyio_backend: str) -> AsyncIterator[Sandbox]:
    if BUSYBOX is None:
        pytest.skip("no busybox to make connections with: install busybox-static")
    name = request.param
    config = SandboxConfig(image=request.getfixturevalue("image") if name == "docker" else None)
    provider: Any = load("provider", name, where="the test")
    async with provider, provider.session(config) as opened:
        await opened.upload(BUSYBOX, "nc")
        yield opened


async def echo(stream: ByteStream) -> None:
    async for piece in stream:
        await stream.send(piece)


async def test_all_bytes_come_back_and_the_end_of_each_side_is_heard(sandbox: Sandbox) -> None:
    sent = bytes(range(256)) * (8 << 12)
    await sandbox.write_file("sent", sent)
    async with sandbox.forward(echo) as address:
        with anyio.fail_after(60):
            done = await sandbox.exec(f"./nc 127.0.0.1 {address.port} < sent > got")
    assert done.ok, done.error_text
    assert hashlib.sha256(await sandbox.read_file("got")).digest() == hashlib.sha256(sent).digest()


async def test_a_unix_socket_of_the_host_is_reached_by_many_at_once(sandbox: Sandbox, tmp_path: Path) -> None:
    async with await anyio.create_unix_listener(tmp_path / "s") as listener, anyio.create_task_group() as group:

        async def serve(stream: ByteStream) -> None:
            async with stream:
                await stream.send(b"<" + b"".join([piece async for piece in stream]) + b">")

        group.start_soon(listener.serve, serve)
        async with sandbox.forward(tmp_path / "s") as address:
            ask = f"echo $i | ./nc 127.0.0.1 {address.port}"
            with anyio.fail_after(60):
                done = await sandbox.exec(
                    f"for i in 1 2 3 4 5 6 7 8 9 10 11 12; do {ask} > out.$i & done; wait; cat out.*"
                )
        assert done.ok, done.error_text
        assert sorted(done.text.replace("\n", "").strip("<>").split("><"), key=int) == [str(n) for n in range(1, 13)]
        group.cancel_scope.cancel()


async def test_after_the_context_nobody_listens(sandbox: Sandbox) -> None:
    async with sandbox.forward(echo) as address:
        pass
    done = await sandbox.exec(f"./nc 127.0.0.1 {address.port} < /dev/null", timeout_s=20)
    assert not done.ok
