"""An engine that is restarted while a sandbox works: one of the test's own, beside the one that there is."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from agentix.api import AgentixError, SandboxConfig, SandboxGone
from agentix.providers.docker import DockerProvider
from agentix.providers.docker.config import DockerConfig
from agentix.providers.docker.endpoint import find_endpoint
from agentix.providers.docker.engine import Engine

pytestmark = [pytest.mark.anyio, pytest.mark.real]

IMAGE = "agentix-restart-test:1"
UP_S = 90.0


class Daemon:
    """A dockerd with everything of its own.

    Args:
        folder: Where all of it is.
        options: More of its options.
    """

    def __init__(self, folder: str, *options: str) -> None:
        self.url = f"unix://{folder}/sock"
        self._folder = folder
        self._command = [
            # A daemon without a bridge removes the one of the host's daemon, so it has a network namespace to itself.
            *("unshare", "--net", "dockerd", "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"),
            *("--pidfile", f"{folder}/pid", "--host", self.url, "--storage-driver", "vfs"),
            *("--bridge", "none", "--iptables=false", "--ip6tables=false", *options),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with Path(f"{self._folder}/log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(UP_S)
            self._process = None

    async def up(self) -> None:
        deadline = time.monotonic() + UP_S
        while True:
            engine = Engine(find_endpoint(host=self.url, context=None))
            try:
                await engine.facts()
            except AgentixError as error:
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > deadline:
                    log = Path(f"{self._folder}/log").read_text(errors="replace")[-600:]  # noqa: ASYNC240
                    pytest.skip(f"no second dockerd can run here: {error.message}; {log}")
                await anyio.sleep(0.05)
            else:
                return
            finally:
                await engine.aclose()

    async def import_image(self) -> None:
        busybox = shutil.which("busybox") or ""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            tar.add(busybox, arcname="bin/busybox")
            for name in ("sh", "sleep", "cat", "true"):
                entry = tarfile.TarInfo(f"bin/{name}")
                entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(entry)
        engine = Engine(find_endpoint(host=self.url, context=None))
        repository, _, tag = IMAGE.partition(":")
        query = {"fromSrc": "-", "repo": repository, "tag": tag}
        try:
            path = "/images/create"
            async with engine.stream("POST", path, query=query, body=buffer.getvalue(), doing="import") as pieces:
                async for _ in pieces:
                    pass
        finally:
            await engine.aclose()


@asynccontextmanager
async def daemon(*options: str) -> AsyncIterator[Daemon]:
    if os.geteuid() != 0 or shutil.which("dockerd") is None or shutil.which("unshare") is None:
        pytest.skip("a second engine needs root, dockerd and unshare")
    # Its sockets have to fit into an address.
    with tempfile.TemporaryDirectory(prefix="agx-", ignore_cleanup_errors=True) as folder:
        own = Daemon(folder, *options)
        own.start()
        try:
            await own.up()
            await own.import_image()
            yield own
        finally:
            own.stop()
            # An engine makes its directory a mount, and leaves it one.
            subprocess.run(["umount", "--lazy", f"{folder}/data"], check=False, capture_output=True)  # noqa: ASYNC221


def _patient(own: Daemon) -> DockerConfig:
    """Waits for as long as an engine may take to start on a machine that is busy."""
    return DockerConfig(host=own.url, reconnect_s=UP_S)


async def test_where_containers_outlive_the_engine_so_does_what_runs_in_them(images: Any) -> None:
    async with daemon("--live-restore") as own, DockerProvider(_patient(own)) as provider:
        async with provider.session(SandboxConfig(image=IMAGE)) as sandbox:
            async with sandbox.stream("echo on; read go; echo $go; exit 5") as running:
                assert (await anext(running)).data == b"on\n"
                await anyio.to_thread.run_sync(own.stop)
                own.start()
                await running.send(b"further\n")
                with anyio.fail_after(UP_S):
                    result = await running.wait()
            assert (result.exit_code, result.stdout) == (5, b"on\nfurther\n")
            assert (await sandbox.exec("echo still")).text == "still\n"
        assert sandbox.unreleased is None
        assert await provider.list({}) == []


async def test_where_containers_end_with_the_engine_every_call_says_so(images: Any) -> None:
    async with daemon() as own, DockerProvider(_patient(own)) as provider:
        async with provider.session(SandboxConfig(image=IMAGE)) as sandbox:
            await sandbox.exec("true")
            async with anyio.create_task_group() as group:

                async def restart() -> None:
                    await anyio.to_thread.run_sync(own.stop)
                    own.start()

                group.start_soon(restart)
                with anyio.fail_after(UP_S), pytest.raises(SandboxGone) as gone:
                    await sandbox.exec("sleep 300")
            assert gone.value.exit_code in (137, None)
            await own.up()
        assert sandbox.unreleased is None
