"""Engines on other machines: reached by ssh or TCP, with agentix's own trees in volumes."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute

from agentix.api import HostError, Mount, SandboxConfig, Unsupported
from agentix.providers.docker import DockerConfig, DockerProvider
from agentix.providers.docker.endpoint import find_endpoint
from agentix.providers.docker.engine import Engine
from agentix.providers.docker.trees import HOLDER, LABEL, Tree, Volumes

pytestmark = [pytest.mark.anyio, pytest.mark.real]


def program(folder: Path, text: str) -> Path:
    path = folder / "ssh"
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command `ssh` that is on this machine already, and writes down how it was called."""
    if shutil.which("docker") is None:
        pytest.skip("the command `docker`, whose dial-stdio is what ssh starts, is not installed")
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    program(folder, 'echo "$*" >> "$0.log"\nfor last; do :; done\nexec sh -c "$last"\n')
    return folder


async def open_files() -> set[str]:
    return {name for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")}  # noqa: ASYNC240


async def test_an_engine_is_reached_by_ssh(images: Any, ssh: Path) -> None:
    config = DockerConfig(host="ssh://me@far:2222/var/run/docker.sock")
    async with DockerProvider(config) as provider:
        async with provider.session(SandboxConfig(image=images.busybox)) as sandbox:
            assert (await sandbox.exec("echo $FROM_IMAGE")).text == "yes\n"
            data = os.urandom(1 << 20)
            await sandbox.write_file("/data", data)
            assert await sandbox.read_file("/data") == data
        assert sandbox.id not in {info.id for info in await provider.list({})}
    calls = (ssh / "ssh.log").read_text().splitlines()
    expected = "-T -l me -p 2222 -- far docker --host=unix:///var/run/docker.sock system dial-stdio"
    assert {call.partition("ConnectTimeout=10 ")[2] for call in calls} == {expected}
    assert all("BatchMode=yes" in call for call in calls)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'me@far: Permission denied (publickey).' >&2; exit 255", "Permission denied"),
        ("echo 'sh: docker: not found' >&2; exit 127", "docker: not found"),
        ("exit 255", "exit code 255"),
    ],
)
async def test_what_ssh_says_is_the_error(ssh: Path, script: str, said: str) -> None:
    program(ssh, f"{script}\n")
    async with DockerProvider(DockerConfig(host="ssh://far")) as provider:
        with pytest.raises(HostError, match="no container engine answers at ssh://far: ") as info:
            await provider.list({})
    assert said in info.value.message
    assert "docker version" in str(info.value.hint)


async def test_without_ssh_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    async with DockerProvider(DockerConfig(host="ssh://far")) as provider:
        with pytest.raises(HostError, match="ssh cannot be started"):
            await provider.list({})


async def test_connections_by_ssh_leave_nothing(images: Any, ssh: Path) -> None:
    async def use() -> None:
        engine = Engine(find_endpoint(host="ssh://far", context=None))
        engine.keeps = True
        await engine.facts()
        await engine.call("GET", "/containers/json", doing="list")
        await engine.aclose()

    await use()
    before = len(await open_files())
    for _ in range(3):
        await use()
    assert len(await open_files()) <= before


@asynccontextmanager
async def far_engine() -> AsyncIterator[str]:
    """The real engine through a port of this machine: as far as an address tells, it is another machine's."""
    path = str(find_endpoint(host=None, context=None).path)

    async def copy(source: ByteStream, target: ByteStream) -> None:
        # The other one may have hung up for good before it is told of the end.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            async for piece in source:
                await target.send(piece)
            await target.send_eof()

    async def serve(client: ByteStream) -> None:
        async with client, await anyio.connect_unix(path) as engine, anyio.create_task_group() as group:
            group.start_soon(copy, client, engine)
            group.start_soon(copy, engine, client)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield f"tcp://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        group.cancel_scope.cancel()


async def mounts_of(provider: DockerProvider, sandbox_id: str) -> dict[str, dict[str, Any]]:
    answer = await provider._engine.call("GET", f"/containers/{sandbox_id}/json", doing="look")
    return {mount["Destination"]: mount for mount in answer.json()["Mounts"]}


async def test_a_far_engine_gets_runtime_and_bundle_in_volumes(images: Any, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    (bundle / "bin").mkdir(parents=True)
    (bundle / "bin" / "hello").write_text("#!/bin/sh\necho from the bundle\n")
    (bundle / "bin" / "hello").chmod(0o755)
    (bundle / "again").symlink_to("bin/hello")
    config = SandboxConfig(
        image=images.busybox,
        bundle=f"sha256:{os.urandom(32).hex()}",
        mounts=(Mount(source=bundle, target="/agentix/bundle"),),
    )
    async with far_engine() as url, DockerProvider(DockerConfig(host=url)) as provider:
        runtime = await provider.runtime()
        info = await provider.create(config, runtime)
        mounts = await mounts_of(provider, info.id)
        assert {target: (mount["Type"], mount["RW"]) for target, mount in mounts.items()} == {
            "/agentix/runtime": ("volume", False),
            "/agentix/bundle": ("volume", False),
        }
        await provider.delete(info.id)
        async with provider.session(config.model_copy(update={"bundle": None, "mounts": ()})) as sandbox:
            assert (await sandbox.exec("echo here")).text == "here\n"
        name = mounts["/agentix/bundle"]["Name"]
        tree = Tree(what="bundle", path=bundle, digest=str(config.bundle), target="/agentix/bundle")
        for volume in (tree.volume, name):
            await provider._engine.call("DELETE", f"/volumes/{volume}", doing="remove")


async def test_mounts_are_refused_by_name_on_a_far_engine(images: Any, tmp_path: Path) -> None:
    async with far_engine() as url, DockerProvider(DockerConfig(host=url)) as provider:
        config = SandboxConfig(image=images.busybox, mounts=(Mount(source=tmp_path, target="/x"),))
        with pytest.raises(Unsupported, match=str(tmp_path)):
            await provider.create(config, await provider.runtime())


@pytest.fixture
async def tree(tmp_path: Path, provider: DockerProvider) -> AsyncIterator[Tree]:
    folder = tmp_path / "tree"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "file").write_bytes(b"content")
    os.link(folder / "deep" / "file", folder / "twin")
    found = Tree(what="test", path=folder, digest=os.urandom(32).hex(), target="/t")
    yield found
    for volume in await volumes_of(provider._engine, found):
        await provider._engine.call("DELETE", f"/volumes/{volume['Name']}", doing="remove")


async def volumes_of(engine: Engine, tree: Tree) -> list[dict[str, Any]]:
    query = {"filters": json.dumps({"label": [f"{LABEL}={tree.digest}"]})}
    return list((await engine.call("GET", "/volumes", query=query, doing="list")).json()["Volumes"] or ())


async def test_many_who_fill_a_volume_at_once_end_with_one(
    provider: DockerProvider, images: Any, tree: Tree, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentix.providers.docker import trees

    @asynccontextmanager
    async def no_lock(path: Path, *, what: str) -> AsyncIterator[None]:
        yield

    monkeypatch.setattr(trees, "host_lock", no_lock)  # as from several machines
    names: list[str] = []

    async def fill() -> None:
        names.append((await Volumes(provider._engine).get(tree, image=images.busybox))["Source"])

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(fill)
    assert len(set(names)) == 1
    assert sorted(volume["Name"] for volume in await volumes_of(provider._engine, tree)) == [tree.volume, names[0]]


async def test_a_volume_that_was_not_filled_to_the_end_is_never_used(
    provider: DockerProvider, images: Any, tree: Tree, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volumes = Volumes(provider._engine)
    put = Volumes._put

    async def torn(self: Volumes, path: str, file: Any) -> None:
        await put(self, path, file)
        raise HostError("the line was cut")

    monkeypatch.setattr(Volumes, "_put", torn)
    with pytest.raises(HostError, match="the line was cut"):
        await volumes.get(tree, image=images.busybox)
    assert await volumes_of(provider._engine, tree) == []

    async def changed(self: Volumes, path: str, file: Any) -> None:
        other = tree.path.parent / "other"
        shutil.copytree(tree.path, other)
        (other / "deep" / "file").write_bytes(b"c0ntent")
        with (tree.path.parent / "tar").open("w+b") as tar:
            from agentix.providers.docker import trees

            trees._pack(tar, other)
            await put(self, path, tar)

    monkeypatch.setattr(Volumes, "_put", changed)
    with pytest.raises(HostError, match="not kept"):
        await volumes.get(tree, image=images.busybox)
    monkeypatch.setattr(Volumes, "_put", put)
    first = (await volumes.get(tree, image=images.busybox))["Source"]
    # Somebody removes it, and the engine makes an empty one for a container that asks for it.
    await provider._engine.call("DELETE", f"/volumes/{first}", doing="remove")
    await provider._engine.call("POST", "/volumes/create", body={"Name": first}, doing="make")
    again = (await Volumes(provider._engine).get(tree, image=images.busybox))["Source"]
    await provider._engine.call("DELETE", f"/volumes/{first}", doing="remove")
    assert again != first
    mark = next(volume for volume in await volumes_of(provider._engine, tree) if volume["Name"] == tree.volume)
    assert mark["Labels"][HOLDER] == again


async def test_a_volume_may_be_asked_for_on_an_engine_of_this_machine(images: Any) -> None:
    async with DockerProvider(DockerConfig(runtime_mount="volume")) as provider:
        for _ in range(2):
            async with provider.session(SandboxConfig(image=images.empty)) as sandbox:
                mounts = await mounts_of(provider, sandbox.id)
                assert [(mount["Type"], mount["RW"]) for mount in mounts.values()] == [("volume", False)]
                assert (await sandbox.exec(["/nosuch"])).exit_code == 127


async def test_a_directory_that_the_engine_does_not_see_is_found_out(images: Any, monkeypatch: Any) -> None:
    from agentix.providers.docker import making as module

    bound = module.bound
    monkeypatch.setattr(module, "bound", lambda tree: bound(replace(tree, path=Path("/nosuch") / "runtime")))
    monkeypatch.setattr(module, "is_unseen", lambda error, trees: "/nosuch/runtime" in error.reason)
    async with DockerProvider() as provider, provider.session(SandboxConfig(image=images.empty)) as sandbox:
        (mount,) = (await mounts_of(provider, sandbox.id)).values()
        assert mount["Type"] == "volume"
