"""Limits that trip are met inside, and named outside."""

from __future__ import annotations

import os

import pytest

from agentix.api import SandboxConfig, SandboxGone
from agentix.providers.local import LocalConfig, LocalProvider, cgroups

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("leftovers")]

needs_memory_group = pytest.mark.skipif(
    "memory" not in cgroups.usable_parents(), reason="no memory control group can be made here"
)


async def test_a_full_disk_is_enospc(provider: LocalProvider) -> None:
    async with provider.session(SandboxConfig(storage_mb=20)) as sandbox:
        result = await sandbox.exec("head -c 40000000 /dev/zero > /app/big")
        assert "No space left on device" in result.error_text
        assert (await sandbox.exec("rm /app/big && echo free > /app/x && cat /app/x")).text == "free\n"


async def test_storage_without_a_value_is_the_options(anyio_backend: str) -> None:
    async with LocalProvider(LocalConfig(storage_mb=16)) as provider, provider.session(SandboxConfig()) as sandbox:
        assert "No space" in (await sandbox.exec("head -c 20000000 /dev/zero > /tmp/big")).error_text


@needs_memory_group
async def test_a_command_killed_for_memory_is_a_result_and_the_sandbox_lives(
    provider: LocalProvider, caplog: pytest.LogCaptureFixture
) -> None:
    async with provider.session(SandboxConfig(memory_mb=64)) as sandbox:
        result = await sandbox.exec("tail /dev/zero")
        assert (result.exit_code, result.signal) == (137, "SIGKILL")
        assert (await sandbox.exec(["true"])).ok
    assert "killed for memory" in caplog.text
    assert sandbox.remarks == ("local: processes of the sandbox that were killed for memory: 1",)


async def test_nothing_is_remarked_of_a_sandbox_that_stayed_within_its_limits(provider: LocalProvider) -> None:
    async with provider.session(SandboxConfig(memory_mb=64)) as sandbox:
        assert (await sandbox.exec(["true"])).ok
    assert sandbox.remarks == ()


@needs_memory_group
async def test_a_server_killed_for_memory_is_a_sandbox_gone_with_oom(provider: LocalProvider) -> None:
    async with provider.session(SandboxConfig(memory_mb=64)) as sandbox:
        group = next(path for path in provider._boxes[sandbox.id].groups if (path / "memory.oom_control").exists())
        with pytest.raises(SandboxGone) as caught:
            # The limit falls below what the server itself has, so that it has to go.
            (group / "memory.memsw.limit_in_bytes").exists() and (group / "memory.swappiness").write_text("0")
            await sandbox.exec("for i in 1 2 3 4 5 6 7 8; do tail /dev/zero & done; wait; kill -9 1; exec 3</dev/zero")
            os.kill(provider._boxes[sandbox.id].lease.processes[1][0], 9)
            await sandbox.exec(["true"])
        assert caught.value.oom
        assert caught.value.detail == "oom"
        assert "out of memory" in caught.value.message


async def test_a_server_that_was_killed_is_a_sandbox_gone_with_its_exit_code(provider: LocalProvider) -> None:
    async with provider.session(SandboxConfig()) as sandbox:
        os.kill(provider._boxes[sandbox.id].lease.processes[1][0], 9)
        with pytest.raises(SandboxGone) as caught:
            await sandbox.exec(["true"])
    assert caught.value.exit_code == 137
    assert not caught.value.oom


@pytest.mark.parametrize("config", [SandboxConfig(pids=30), SandboxConfig()], ids=["config", "option"])
async def test_a_fork_bomb_meets_the_limit_of_processes(config: SandboxConfig, anyio_backend: str) -> None:
    bomb = "for i in $(seq 100); do sleep 20 & done 2>&1; echo survived"
    async with LocalProvider(LocalConfig(pids=30)) as provider, provider.session(config) as sandbox:
        result = await sandbox.exec(["bash", "-c", bomb], timeout_s=10)
        assert "Resource temporarily unavailable" in result.text + result.error_text
        await sandbox.kill_all()
        assert (await sandbox.exec(["true"])).ok


@pytest.mark.skipif("cpu" not in cgroups.usable_parents(), reason="no cpu control group can be made here")
async def test_a_share_of_a_cpu_is_all_that_is_used(provider: LocalProvider) -> None:
    spin = (
        "import time; t=time.time(); c=time.process_time()\nwhile time.time()-t < 1: pass\nprint(time.process_time()-c)"
    )
    async with provider.session(SandboxConfig(cpus=0.2)) as sandbox:
        used = float((await sandbox.exec(["python3", "-c", spin])).text)
    assert used < 0.5


async def test_less_storage_than_asked_for_is_noted(provider: LocalProvider) -> None:
    async with provider.session(SandboxConfig(memory_mb=64, storage_mb=1000)) as sandbox:
        assert any("48 MiB of the 1000 MiB" in note for note in sandbox.info.notes)


async def test_without_control_groups_rlimits_hold_and_that_is_noted(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "usable_parents", dict)
    async with provider.session(SandboxConfig(memory_mb=128, pids=40, cpus=1)) as sandbox:
        notes = " ".join(sandbox.info.notes)
        assert "no control group for memory" in notes and "rlimit" in notes
        assert "no control group for cpu" in notes
        limits = (await sandbox.exec("cat /proc/self/limits")).text
        assert (await sandbox.exec(["python3", "-c", "x = bytearray(300_000_000)"])).exit_code == 1
    assert "Max processes             40" in limits
    assert f"Max data size             {128 << 20}" in limits
