"""Containers that come up without the files of their image, as when something unmounts what the engine has mounted."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import anyio
import anyio.to_thread
import pytest

from agentix.api import HostError, SandboxConfig
from agentix.providers.docker import DockerProvider
from agentix.providers.docker import provider as module
from agentix.providers.docker.engine import segment
from agentix.providers.docker.making import Maker
from agentix.providers.docker.roots import unmounted

ID = "a1" * 32


@pytest.mark.parametrize(
    "root",
    [
        ["ext4", f"/var/lib/docker/overlay2/{ID}/merged"],
        ["xfs", f"/overlay2/{ID}/merged"],
        ["btrfs", f"/@/var/lib/containers/storage/overlay/{ID}/merged"],
        ["ext4", f"/var/lib/docker/rootfs/overlayfs/{ID}"],
    ],
)
def test_a_root_that_is_an_engines_empty_directory_is_told(root: list[str]) -> None:
    error = unmounted("agentix-1", {"root": root})
    assert error is not None
    assert "agentix-1 started without the files of its image" in error.message and root[1] in error.message
    assert error.detail == "engine"


@pytest.mark.parametrize(
    "greeting",
    [
        {"root": ["overlay", "/"]},
        {"root": ["fuse.fuse-overlayfs", "/"]},
        # The storage drivers vfs, btrfs and zfs, and virtual machines.
        {"root": ["ext4", f"/var/lib/docker/vfs/dir/{ID}"]},
        {"root": ["btrfs", f"/btrfs/subvolumes/{ID}"]},
        {"root": ["zfs", "/"]},
        {"root": ["virtiofs", f"/{ID}/rootfs"]},
        {"root": ["ext4", f"/overlay2/{ID}/merged/below"]},
        {"root": None},
        {"root": ["ext4"]},
        {"root": [1, 2]},
        {"root": "ext4 /overlay2/x/merged"},
        {},
    ],
)
def test_any_other_root_is_taken_for_what_it_is(greeting: dict[str, Any]) -> None:
    assert unmounted("agentix-1", greeting) is None


@pytest.mark.anyio
@pytest.mark.real
async def test_a_container_without_the_files_of_its_image_is_replaced_by_one_that_has_them(
    provider: DockerProvider, images: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    said: list[dict[str, Any]] = []

    def once(sandbox_id: str, greeting: dict[str, Any]) -> HostError | None:
        said.append(greeting)
        # As it would be had the files been unmounted.
        hollow = {"root": ["ext4", f"/var/lib/docker/overlay2/{ID}/merged"]}
        return unmounted(sandbox_id, hollow if len(said) == 1 else greeting)

    monkeypatch.setattr(module, "unmounted", once)
    async with provider.session(SandboxConfig(image=images.busybox)) as sandbox:
        assert (await sandbox.exec("echo here")).text == "here\n"
        assert [info.id for info in await provider.list({}) if info.id in provider._streams] == [sandbox.id]
    assert len(said) == 2
    assert "started without the files of its image" in caplog.text and "another one is made" in caplog.text


@pytest.mark.anyio
@pytest.mark.real
async def test_where_no_container_ever_has_the_files_that_is_the_error(
    provider: DockerProvider, images: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def always(sandbox_id: str, greeting: dict[str, Any]) -> HostError | None:
        made.append(sandbox_id)
        return unmounted(sandbox_id, {"root": ["ext4", f"/var/lib/docker/overlay2/{ID}/merged"]})

    monkeypatch.setattr(module, "unmounted", always)
    with pytest.raises(HostError, match="started without the files of its image"):
        async with provider.session(SandboxConfig(image=images.busybox)):
            pytest.fail("there should be no sandbox")
    assert len(made) == 3
    assert [info.id for info in await provider.list({}) if info.id in made] == []


@pytest.mark.anyio
@pytest.mark.real
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to unmount")
async def test_files_that_were_unmounted_before_the_start_are_noticed_by_what_the_server_says(
    provider: DockerProvider, images: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if (await provider._engine.facts()).storage_driver != "overlay2":
        pytest.skip("the engine's storage driver is not overlay2")
    greetings: list[dict[str, Any]] = []
    start = Maker.start

    def note(sandbox_id: str, greeting: dict[str, Any]) -> HostError | None:
        greetings.append(greeting)
        return unmounted(sandbox_id, greeting)

    async def start_while_it_is_unmounted(self: Maker, sandbox_id: str, image: Any) -> None:
        if greetings:
            await start(self, sandbox_id, image)
            return
        path = f"/containers/{segment(sandbox_id)}/json"
        driver = (await self._engine.call("GET", path, doing="inspect")).json()["GraphDriver"]["Data"]
        place = driver["MergedDir"]
        with anyio.move_on_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.to_thread.run_sync, _unmount_when_mounted, place)
                await start(self, sandbox_id, image)

    monkeypatch.setattr(module, "unmounted", note)
    monkeypatch.setattr(Maker, "start", start_while_it_is_unmounted)
    for _ in range(50):
        greetings.clear()
        async with provider.session(SandboxConfig(image=images.busybox)) as sandbox:
            assert (await sandbox.exec("echo here")).text == "here\n"
        assert greetings[-1]["root"] == ["overlay", "/"]
        # Else it was unmounted too late.
        if len(greetings) > 1:
            break
    assert [greeting["root"][1].endswith("/merged") for greeting in greetings] == [True, False]


def _unmount_when_mounted(place: str) -> None:
    for _ in range(1_000_000):
        if os.path.ismount(place):
            subprocess.run(["umount", "--lazy", place], check=False, capture_output=True)
            return
