"""Streams to containers that are lost while the container lives, on a real engine behind a proxy that cuts them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mixed_work import mixed_work

from agentix.api import Sandbox, SandboxConfig, SandboxGone, base_runtime
from agentix.providers.docker import DockerProvider
from agentix.providers.docker.config import DockerConfig
from agentix.providers.docker.endpoint import find_endpoint

pytestmark = [pytest.mark.anyio, pytest.mark.real]

BYTES = hashlib.shake_256(b"content").digest(700_000)


class Proxy:
    """Between a provider and its engine: what is taken over as a stream breaks after as many bytes as a test says.

    It runs in threads, so that it is there whatever the test's own event loop does.

    Args:
        path: Where it listens.
        engine: The engine's socket.
    """

    def __init__(self, path: str, engine: str) -> None:
        self.lives: Callable[[], int | None] = lambda: None
        self.streams: list[Stream] = []
        self._engine = engine
        self._stop = threading.Event()
        self._connections: list[Stream] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(64)
        self._threads[0].start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        for connection in self._connections:
            connection.cut()
        for thread in self._threads:
            thread.join()
        for connection in self._connections:
            connection.near.close()
            connection.far.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._engine)
            connection = Stream(near, far)
            self._connections.append(connection)
            for source, sink in ((near, far), (far, near)):
                self._threads.append(threading.Thread(target=self._copy, args=(source, sink, connection)))
                self._threads[-1].start()

    def _copy(self, source: socket.socket, sink: socket.socket, stream: Stream) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(stream.most()):
                if stream.silent.is_set():
                    continue
                if source is stream.far and piece.startswith(b"HTTP/1.1 101"):
                    stream.left = self.lives()
                    self.streams.append(stream)
                elif stream.left is not None:
                    stream.left -= len(piece)
                sink.sendall(piece)
                if stream.left is not None and stream.left <= 0:
                    break
        stream.cut()


class Stream:
    """One connection through the proxy."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self.near, self.far = near, far
        self.left: int | None = None
        """After how many bytes it breaks."""
        self.silent = threading.Event()

    def most(self) -> int:
        return 65536 if self.left is None else max(1, min(65536, self.left))

    def cut(self) -> None:
        for end in (self.near, self.far):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@asynccontextmanager
async def behind_a_proxy(**options: Any) -> AsyncIterator[tuple[DockerProvider, Proxy]]:
    path = find_endpoint(host=None, context=None).path
    if path is None:
        pytest.skip("the engine is not reached through a unix socket")
    with tempfile.TemporaryDirectory() as folder:
        proxy = Proxy(f"{folder}/engine.sock", path)
        try:
            async with DockerProvider(DockerConfig(host=f"unix://{folder}/engine.sock", **options)) as provider:
                yield provider, proxy
        finally:
            proxy.close()


async def program(code: str) -> list[str]:
    """A command that runs Python code with the runtime's own interpreter, whatever the image holds."""
    return [*(await base_runtime()).argv, "-c", textwrap.dedent(code)]


async def everything(sandbox: Sandbox, folder: Path) -> dict[str, Any]:
    return await mixed_work(sandbox, folder, BYTES, commands=8, files=8, lines=60_000)


@pytest.mark.parametrize("seed", range(4))
async def test_wherever_the_way_to_the_engine_breaks_the_results_are_the_same(
    images: Any, seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    left = [*(chance.randrange(1, (900, 60_000, 900_000)[seed % 3]) for _ in range(6)), 4000 + chance.randrange(60_000)]
    async with behind_a_proxy() as (provider, proxy):
        async with provider.session(SandboxConfig(image=images.busybox)) as sandbox:
            uncut = await everything(sandbox, tmp_path / "uncut")
        before = len(proxy.streams)
        proxy.lives = lambda: left.pop() if left else None
        async with provider.session(SandboxConfig(image=images.busybox)) as sandbox:
            found = await everything(sandbox, tmp_path / "cut")
        assert [name for name in uncut if found[name] != uncut[name]] == []
        assert len(proxy.streams) - before > 3


async def test_a_stream_that_falls_silent_is_dialled_again(images: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with behind_a_proxy() as (provider, proxy):
        provider.heartbeat_s, provider.missed_heartbeats = 0.2, 1000
        async with provider.session(SandboxConfig(image=images.busybox)) as sandbox:
            await sandbox.exec("true")
            connection, bridge = await sandbox.connect(), provider.bridge

            async def patiently(sandbox_id: str, argv: Any) -> Any:
                connection._missed = 1000
                return await bridge(sandbox_id, argv)

            monkeypatch.setattr(provider, "bridge", patiently)
            proxy.streams[0].silent.set()
            # Until it is dialled again and no longer: a container may be slow at any time.
            connection._missed = 2
            with anyio.fail_after(60):
                assert (await sandbox.exec("echo on")).text == "on\n"
            assert len(proxy.streams) == 2


async def test_a_paused_container_is_told_in_time(provider: DockerProvider, images: Any) -> None:
    assert provider.heartbeat_s * 3 <= 15
    provider.heartbeat_s = 0.3
    async with provider.session(SandboxConfig(image=images.busybox)) as sandbox:
        await sandbox.exec("true")
        await provider._engine.call("POST", f"/containers/{sandbox.id}/pause", doing="pause")
        with anyio.fail_after(60), pytest.raises(SandboxGone, match="paused"):
            await sandbox.exec("true")


async def test_a_container_that_was_paused_for_a_moment_goes_on(provider: DockerProvider, images: Any) -> None:
    async with provider.session(SandboxConfig(image=images.busybox)) as sandbox:
        await sandbox.exec("true")
        path = f"/containers/{sandbox.id}"

        async def resume() -> None:
            await provider._engine.call("POST", f"{path}/unpause", doing="unpause")

        await provider._engine.call("POST", f"{path}/pause", doing="pause")
        async with anyio.create_task_group() as group:
            group.start_soon(resume)
            assert (await sandbox.exec("echo on")).text == "on\n"


async def test_a_container_that_dies_while_its_stream_is_lost_says_why(images: Any) -> None:
    async with (
        behind_a_proxy() as (provider, proxy),
        provider.session(SandboxConfig(image=images.busybox)) as sandbox,
        DockerProvider() as other,
    ):
        await sandbox.exec("true")
        await other._engine.call("POST", f"/containers/{sandbox.id}/kill", doing="kill")
        proxy.streams[0].cut()
        with anyio.fail_after(60), pytest.raises(SandboxGone, match="killed") as gone:
            await sandbox.exec("true")
        assert gone.value.exit_code == 137
        await other._engine.aclose()


STRANGER = """
    import _socket, sys, time
    name = next(line.split()[-1] for line in open("/proc/net/unix") if "@agentix-" in line)
    held = []
    answers = set()
    for number in range(10_000):
        peer = _socket.socket(_socket.AF_UNIX)
        try:
            peer.connect(b"\\0" + name[1:].encode())
            if number % 3 == 0:
                peer.send(b"\\0" * 56)
            if number % 1000 == 999:
                held.append(peer)
                peer.settimeout(20)
                answers.add(peer.recv(100))
                continue
        except (BrokenPipeError, ConnectionResetError):
            pass
        peer.close()
    print(answers, flush=True)
    time.sleep(float(sys.argv[1]))
"""


@pytest.mark.parametrize("user", ["root", "nobody"])
async def test_who_was_started_inside_is_not_even_answered(images: Any, user: str) -> None:
    async with (
        behind_a_proxy() as (provider, proxy),
        provider.session(SandboxConfig(image=images.busybox)) as sandbox,
    ):
        stranger = await program(STRANGER)
        # Ten connections stay while that stream is lost and had again.
        async with sandbox.stream([*stranger, "300"], user=user) as running:
            async for chunk in running:
                assert (chunk.stream, chunk.data) == ("stdout", b"{b''}\n")
                break
            proxy.streams[-1].cut()
            assert (await sandbox.exec("echo on")).text == "on\n"
        async with anyio.create_task_group() as group:

            async def storm() -> None:
                assert (await sandbox.exec([*stranger, "0"], user=user)).exit_code == 0

            group.start_soon(storm)
            for number in range(3):
                proxy.streams[-1].cut()
                assert (await sandbox.exec(["echo", str(number)])).text == f"{number}\n"


async def test_killing_everything_inside_spares_the_stream(images: Any) -> None:
    async with (
        behind_a_proxy() as (provider, proxy),
        provider.session(SandboxConfig(image=images.busybox)) as sandbox,
    ):
        await sandbox.exec("true")
        proxy.streams[0].cut()
        await sandbox.exec("sleep 300 & true")
        await sandbox.kill_all()
        assert (await sandbox.exec("echo on")).text == "on\n"
        assert len(proxy.streams) == 2
        assert await sandbox.count_processes() == 0


@pytest.mark.parametrize("name", ["KILL", "STOP"])
async def test_an_agent_that_ends_or_stops_the_bridge_only_makes_another_necessary(images: Any, name: str) -> None:
    async with behind_a_proxy() as (provider, proxy):
        provider.heartbeat_s, provider.missed_heartbeats = 1.0, 3
        async with provider.session(SandboxConfig(image=images.busybox)) as sandbox:
            await sandbox.exec("true")
            proxy.streams[0].cut()
            attack = "ps -o pid,args | grep 'runtime.[b]ridge' | while read pid rest; do kill -%s $pid; done; echo did"
            with anyio.fail_after(60):
                assert (await sandbox.exec(attack % name)).text == "did\n"
                assert (await sandbox.exec("ps -o args | grep -c 'runtime.[b]ridge'")).text == "1\n"


HOST = """
    import sys
    import anyio
    from agentix.api import SandboxConfig
    from agentix.providers.docker import DockerProvider
    from agentix.providers.docker.config import DockerConfig

    async def main():
        provider = DockerProvider(DockerConfig(reconnect_s=1.0))
        async with provider.session(SandboxConfig(image=sys.argv[1])) as sandbox:
            await sandbox.exec("sleep 300 & true")
            print(sandbox.id, flush=True)
            await anyio.sleep_forever()

    anyio.run(main)
"""


async def test_a_container_whose_host_was_killed_ends_after_its_time(provider: DockerProvider, images: Any) -> None:
    command = [sys.executable, "-c", textwrap.dedent(HOST), images.busybox]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:  # noqa: ASYNC220
        assert owner.stdout is not None
        sandbox_id = (await anyio.to_thread.run_sync(owner.stdout.readline)).strip()
        os.kill(owner.pid, signal.SIGKILL)
        await anyio.to_thread.run_sync(owner.wait)
    path = f"/containers/{sandbox_id}"
    answer = await provider._engine.call("POST", f"{path}/wait", doing="wait for it", ok=(404,), within_s=60)
    # Any other provider that starts meanwhile takes away what a dead owner has left.
    assert answer.status == 404 or answer.json()["StatusCode"] in (0, 137)
    await provider.delete(sandbox_id)
