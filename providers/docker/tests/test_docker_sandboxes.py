"""Sandboxes on a real engine: any image, its user, its entrypoint, its limits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentix.api import Capability, EnvFailed, Mount, SandboxConfig, Unsupported
from agentix.providers.docker import DockerConfig, DockerProvider

pytestmark = [pytest.mark.anyio, pytest.mark.real]


async def inspected(provider: DockerProvider, sandbox_id: str) -> dict[str, Any]:
    answer = await provider._engine.call("GET", f"/containers/{sandbox_id}/json", doing="inspect")
    found: dict[str, Any] = answer.json()
    return found


async def test_an_image_without_a_single_file_runs(provider: DockerProvider, images: Any) -> None:
    async with provider.session(SandboxConfig(image=images.empty)) as sandbox:
        await sandbox.write_file("/data/file", b"content")
        assert await sandbox.read_file("/data/file") == b"content"
        missing = await sandbox.exec("echo hi")
        assert missing.exit_code == 127
        assert b"sh" in missing.stderr


@pytest.mark.parametrize("read_only", [False, True])
async def test_an_image_of_one_program_and_a_user_without_a_name_runs(images: Any, read_only: bool) -> None:
    # As distroless images are: no shell, no passwd, a numeric USER.
    tools = {"busybox": Path(shutil.which("busybox") or "")}
    name = images.add(f"one-program-{read_only}".lower(), tools, "USER 65532:65532", 'ENTRYPOINT ["/busybox"]')
    async with (
        DockerProvider(DockerConfig(read_only=read_only)) as provider,
        provider.session(SandboxConfig(image=name, network="none")) as sandbox,
    ):
        shown = await sandbox.exec(["/busybox", "id"])
        assert shown.text.startswith("uid=65532 gid=65532")
        assert (await sandbox.exec(["/busybox", "id", "-u"], user="0")).text == "0\n"
        await sandbox.write_file("/tmp/deep/file", b"kept")
        assert (await sandbox.exec(["/busybox", "cat", "/tmp/deep/file"])).text == "kept"
        assert (await sandbox.exec("echo no shell")).exit_code == 127


async def test_the_images_own_directory_and_variables_hold(provider: DockerProvider, images: Any) -> None:
    async with provider.session(SandboxConfig(image=images.busybox, env={"GIVEN": "1"})) as sandbox:
        assert sandbox.workdir == "/work/here"
        assert (
            await sandbox.exec("pwd; echo $FROM_IMAGE $GIVEN; env | grep -c AGENTIX")
        ).text == "/work/here\nyes 1\n0\n"


@pytest.mark.parametrize(("workdir", "expected"), [("/new/place", "/new/place"), ("below", "/work/here/below")])
async def test_a_directory_that_does_not_exist_is_made(
    provider: DockerProvider, images: Any, workdir: str, expected: str
) -> None:
    async with provider.session(SandboxConfig(image=images.busybox, workdir=workdir)) as sandbox:
        assert (await sandbox.exec("pwd")).text == f"{expected}\n"


async def test_commands_run_as_the_images_user_and_as_others(provider: DockerProvider, images: Any) -> None:
    image = images.add(
        "user",
        {
            "bin/busybox": Path("/bin/busybox"),
            "bin/sh": "busybox",
            "bin/id": "busybox",
            "etc/passwd": b"app:x:1000:1000::/home/app:/bin/sh\nroot:x:0:0::/root:/bin/sh\n",
        },
        "USER app",
    )
    async with provider.session(SandboxConfig(image=image)) as sandbox:
        assert (await sandbox.exec("id -u; echo $HOME")).text == "1000\n/home/app\n"
        assert (await sandbox.exec("id -u", user="root")).text == "0\n"
        assert (await sandbox.exec("id -u", user="4321")).text == "4321\n"
        with pytest.raises(EnvFailed, match="nosuch"):
            await sandbox.exec("id", user="nosuch")


async def test_the_entrypoint_runs_as_the_images_user_with_a_pause_for_its_command(
    provider: DockerProvider, images: Any
) -> None:
    script = b'#!/bin/sh\nid -u > /tmp/who; pwd > /tmp/where; echo "$GIVEN" > /tmp/given; echo started\nexec "$@"\n'
    files: dict[str, Any] = {
        "bin/busybox": Path("/bin/busybox"),
        "bin/sh": "busybox",
        "bin/id": "busybox",
        "bin/cat": "busybox",
        "bin/ps": "busybox",
        "bin/sleep": "busybox",
        "entry.sh": script,
        "etc/passwd": b"app:x:1000:1000::/home/app:/bin/sh\n",
    }
    image = images.add("entry", files, "USER app", 'ENTRYPOINT ["/entry.sh"]', 'CMD ["lost"]')
    async with provider.session(SandboxConfig(image=image, env={"GIVEN": "yes"})) as sandbox:
        seen = await sandbox.exec(
            "until [ -s /tmp/given ]; do sleep 0.01; done; cat /tmp/who /tmp/where /tmp/given", timeout_s=20
        )
        assert seen.text == "1000\n/\nyes\n"
        # Its command is alive, and it is none of the image's own.
        pauses = "ps -o args | grep -v 'runtime.start' | grep -q 'import [p]ause'"
        alive = await sandbox.exec(f"until {pauses}; do sleep 0.01; done; ps", timeout_s=20)
        assert "lost" not in alive.text
        await sandbox.kill_all()
        assert not (await sandbox.exec(pauses)).ok


@pytest.mark.parametrize("entrypoint", ['["/nosuch"]', '["/bin/busybox", "false"]'])
async def test_an_entrypoint_that_fails_costs_a_line_in_the_log(
    provider: DockerProvider, images: Any, entrypoint: str
) -> None:
    files: dict[str, Any] = {"bin/busybox": Path("/bin/busybox"), "bin/sh": "busybox"}
    image = images.add("failing", files, f"ENTRYPOINT {entrypoint}")
    async with provider.session(SandboxConfig(image=image)) as sandbox:
        assert (await sandbox.exec("echo fine")).text == "fine\n"
        with anyio.fail_after(60):
            while "entrypoint" not in provider._streams[sandbox.id].log:
                await sandbox.exec("true")


async def test_variables_of_the_image_do_not_reach_the_runtime_itself(provider: DockerProvider, images: Any) -> None:
    files: dict[str, Any] = {"bin/busybox": Path("/bin/busybox"), "bin/sh": "busybox", "bin/env": "busybox"}
    image = images.add("preload", files, "ENV LD_PRELOAD=/nosuch.so PYTHONHOME=/nosuch PYTHONPATH=/nosuch")
    async with provider.session(SandboxConfig(image=image)) as sandbox:
        assert "LD_PRELOAD=/nosuch.so" in (await sandbox.exec(["env"])).text
        assert "nosuch" not in provider._streams[sandbox.id].log


async def test_limits_are_the_containers(provider: DockerProvider, images: Any) -> None:
    config = SandboxConfig(image=images.busybox, cpus=0.5, memory_mb=128, pids=77)
    async with provider.session(config) as sandbox:
        host = (await inspected(provider, sandbox.id))["HostConfig"]
    assert (host["CpuQuota"], host["CpuPeriod"]) == (50_000, 100_000)
    assert host["Memory"] == host["MemorySwap"] == 128 << 20
    assert host["PidsLimit"] == 77
    assert not host["Privileged"]
    assert host["NetworkMode"] == "none"


async def test_hardened_leaves_few_capabilities_and_lets_nobody_gain_any(images: Any) -> None:
    async with (
        DockerProvider(DockerConfig(hardened=True)) as provider,
        provider.session(SandboxConfig(image=images.busybox)) as sandbox,
    ):
        status = (await sandbox.exec("grep -E 'CapEff|NoNewPrivs' /proc/self/status")).text.split()
        assert int(status[status.index("CapEff:") + 1], 16) == sum(1 << bit for bit in (0, 1, 3, 5, 6, 7))
        assert status[status.index("NoNewPrivs:") + 1] == "1"
        assert (await sandbox.exec("id -u", user="nobody")).text == "65534\n"


async def test_a_read_only_root_has_room_for_temporary_files(images: Any) -> None:
    async with (
        DockerProvider(DockerConfig(read_only=True)) as provider,
        provider.session(SandboxConfig(image=images.busybox, workdir="/made")) as sandbox,
    ):
        assert (await sandbox.exec("pwd")).text == "/made\n"
        assert (await sandbox.exec("echo x > /tmp/file && cat /tmp/file")).text == "x\n"
        assert not (await sandbox.exec("echo x > /etc/file")).ok


async def test_mounts_are_there_and_read_only_unless_said_otherwise(
    provider: DockerProvider, images: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("content")
    mounts = (Mount(source=tmp_path, target="/in"), Mount(source=tmp_path, target="/out", read_only=False))
    async with provider.session(SandboxConfig(image=images.busybox, mounts=mounts)) as sandbox:
        assert await sandbox.read_file("/in/file") == b"content"
        assert not (await sandbox.exec("echo x > /in/new")).ok
        assert (await sandbox.exec("echo x > /out/new")).ok
    assert (tmp_path / "new").read_text() == "x\n"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"network": "allowlist", "allowed_hosts": ("example.org",)}, "allowlist"),
        ({"gpus": 1}, "gpus"),
        ({"storage_mb": 64}, "storage_mb"),
        ({"mounts": (Mount(source=Path("/etc"), target="/agentix/runtime"),)}, "mount"),
    ],
)
async def test_what_the_engine_cannot_do_is_refused_by_name(
    provider: DockerProvider, images: Any, changes: dict[str, Any], named: str
) -> None:
    await provider._engine.facts()
    if named == "storage_mb" and Capability.STORAGE_LIMIT in provider.capabilities:
        pytest.skip("this engine limits storage")
    if named == "gpus" and Capability.GPUS in provider.capabilities:
        pytest.skip("this engine has GPUs")
    with pytest.raises(Unsupported, match=named):
        async with provider.session(SandboxConfig(image=images.busybox, **changes)):
            pass


async def test_storage_can_be_left_aside_with_a_note(images: Any) -> None:
    async with DockerProvider(DockerConfig(storage="ignore")) as provider:
        await provider._engine.facts()
        if Capability.STORAGE_LIMIT in provider.capabilities:
            pytest.skip("this engine limits storage")
        async with provider.session(SandboxConfig(image=images.busybox, storage_mb=64)) as sandbox:
            assert any("storage_mb" in note for note in sandbox.info.notes)


async def test_orphans_are_reaped_and_a_stop_is_quick(provider: DockerProvider, images: Any) -> None:
    async with provider.session(SandboxConfig(image=images.busybox)) as sandbox:
        await sandbox.exec("for i in 1 2 3 4 5; do (sleep 0.01 &) ; done")
        zombies = "grep -l '^State:.Z' /proc/[0-9]*/status"
        with anyio.fail_after(60):
            while (await sandbox.exec(zombies)).stdout or (await sandbox.exec("ps | grep -q '[s]leep'")).ok:
                pass
        with anyio.fail_after(25):
            await provider._engine.call("POST", f"/containers/{sandbox.id}/stop", query={"t": "30"}, doing="stop")


async def test_nothing_secret_stands_in_the_containers_description(provider: DockerProvider, images: Any) -> None:
    config = SandboxConfig(image=images.busybox, env={"KEY": "sk-CANARY"})
    async with provider.session(config) as sandbox:
        assert (await sandbox.exec("echo $KEY", env={"OTHER": "sk-CANARY2"})).text == "sk-CANARY\n"
        described = json.dumps(await inspected(provider, sandbox.id))
    assert "CANARY" not in described
