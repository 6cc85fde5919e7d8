"""How sandboxes end, foreseen or not, on a real engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentix.api import EnvFailed, Mount, Sandbox, SandboxConfig, SandboxGone, base_runtime
from agentix.providers.docker import DockerProvider
from agentix.providers.docker.containers import remove_container
from agentix.providers.docker.gone import what_tripped

pytestmark = [pytest.mark.anyio, pytest.mark.real]


async def ended_by(
    provider: DockerProvider,
    config: SandboxConfig,
    deed: Callable[[Sandbox], Awaitable[object]],
    *,
    before: Callable[[Sandbox], Awaitable[object]] = lambda sandbox: sandbox.exec("true"),
) -> list[SandboxGone]:
    """What two pending calls raise, and a later one, when something ends their sandbox."""
    raised: list[SandboxGone] = []
    async with provider.session(config) as sandbox:
        await before(sandbox)

        async def pending() -> None:
            with pytest.raises(SandboxGone) as info:
                await sandbox.exec("sleep 300")
            raised.append(info.value)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(pending)
                group.start_soon(pending)
                await anyio.wait_all_tasks_blocked()
                await deed(sandbox)
        with pytest.raises(SandboxGone) as info:
            await sandbox.read_file("/etc/passwd")
        assert not sandbox.alive
    return [*raised, info.value]


async def test_a_removed_container_ends_every_call_with_that_reason(provider: DockerProvider, images: Any) -> None:
    async def remove(sandbox: Sandbox) -> None:
        await remove_container(provider._engine, sandbox.id)

    gone = await ended_by(provider, SandboxConfig(image=images.busybox), remove)
    assert len(gone) == 3
    assert all("removed" in error.message and not error.oom for error in gone)


async def test_a_killed_container_is_not_taken_for_one_out_of_memory(provider: DockerProvider, images: Any) -> None:
    async def eat(sandbox: Sandbox) -> None:
        # One command that dies for memory leaves the engine's flag behind.
        eaten = await sandbox.exec("head -c 200000000 /dev/zero | tail -c 200000000 | wc -c", timeout_s=30)
        assert eaten.text.strip() != "200000000"

    async def kill(sandbox: Sandbox) -> None:
        await provider._engine.call("POST", f"/containers/{sandbox.id}/kill", doing="kill")

    config, gone = SandboxConfig(image=images.busybox, memory_mb=64), list[SandboxGone]()
    for _ in range(5):
        try:
            gone = await ended_by(provider, config, kill, before=eat)
            break
        except SandboxGone as error:
            # As long as what the killed one had is not free yet, the kernel may take the first process too.
            assert error.oom
    assert [(error.exit_code, error.oom) for error in gone] == [(137, False)] * 3
    assert all(error.detail == "sandbox_gone" for error in gone)


@pytest.mark.parametrize("user", ["root", "nobody"])
async def test_the_kernel_takes_a_command_for_memory_before_the_server(
    provider: DockerProvider, images: Any, user: str
) -> None:
    config = SandboxConfig(image=images.busybox, user=user)
    score, back = "cat /proc/self/oom_score_adj", "until [ $(cat /proc/1/oom_score_adj) = 0 ]; do :; done"
    async with provider.session(config) as sandbox:
        assert (await sandbox.exec(f"{score}; {back}", timeout_s=60)).text == "300\n"
        async with sandbox.stream(f"{score}; read line; {back}") as running:
            # Beside another one, it has a parent of its own.
            assert (await sandbox.exec(f"{score}; {back}", timeout_s=60)).text == "300\n"
            await running.close_input()
            assert [chunk.data async for chunk in running] == [b"300\n"]
            assert (await running.wait()).ok


async def test_a_sandbox_whose_server_is_killed_for_memory_says_so(provider: DockerProvider, images: Any) -> None:
    async with provider.session(SandboxConfig(image=images.busybox, memory_mb=32)) as sandbox:
        raised = []
        with pytest.raises(SandboxGone) as info:
            # What lies in memory as a file is nobody's: in the end the first process is killed for it.
            await sandbox.write_file("/dev/shm/full", bytes(60_000_000))
        raised.append(info.value)
        with pytest.raises(SandboxGone) as info:
            await sandbox.read_file("/etc/passwd")
        raised.append(info.value)
        assert not sandbox.alive
    assert [(error.oom, error.detail, error.exit_code) for error in raised] == [(True, "oom", 137)] * 2


async def test_a_command_that_was_killed_for_memory_is_remarked(provider: DockerProvider, images: Any) -> None:
    async with provider.session(SandboxConfig(image=images.busybox, memory_mb=64)) as sandbox:
        await sandbox.exec("head -c 200000000 /dev/zero | tail -c 200000000 | wc -c", timeout_s=30)
        with anyio.fail_after(60):
            # The engine itself hears of it a moment later.
            while not await what_tripped(provider._engine, sandbox.id):  # noqa: ASYNC110
                await anyio.sleep(0.05)
    async with provider.session(SandboxConfig(image=images.busybox, memory_mb=64)) as other:
        await other.exec("true")
    assert sandbox.remarks == ("docker: processes of the sandbox were killed for memory",)
    assert other.remarks == ()
    assert not provider._memory_limited


async def test_what_the_sandbox_last_said_is_in_the_error(provider: DockerProvider, images: Any) -> None:
    async def end(sandbox: Sandbox) -> None:
        await provider._engine.call("POST", f"/containers/{sandbox.id}/stop", doing="stop")

    gone = await ended_by(provider, SandboxConfig(image=images.busybox), end)
    assert all((error.exit_code, error.oom) == (137, False) for error in gone)


async def test_deleting_is_confirmed_quick_and_idempotent(provider: DockerProvider, images: Any) -> None:
    info = await provider.create(SandboxConfig(image=images.busybox), await base_runtime())

    async def delete() -> None:
        await provider.delete(info.id)

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(delete)
    await provider.delete(info.id)
    answer = await provider._engine.call("GET", f"/containers/{info.id}/json", doing="inspect", ok=(404,))
    assert answer.status == 404


@pytest.mark.parametrize("step", ["create", "start"])
async def test_a_create_that_fails_half_way_leaves_nothing_and_tells_the_first_error(
    provider: DockerProvider, images: Any, tmp_path: Path, step: str
) -> None:
    label = {"test": uuid.uuid4().hex}
    # /etc/passwd is no directory, which the engine finds out at different times.
    wrong: dict[str, Any] = {
        "create": {"workdir": "/etc/passwd"},
        "start": {"mounts": (Mount(source=tmp_path, target="/etc/passwd/below"),)},
    }
    config = SandboxConfig(image=images.busybox, labels=label, **wrong[step])
    with pytest.raises(EnvFailed, match="passwd"):
        await provider.create(config, await base_runtime())
    assert await provider.list(label) == []


async def test_a_cancelled_create_leaves_nothing(provider: DockerProvider, images: Any) -> None:
    runtime = await base_runtime()
    label = {"test": uuid.uuid4().hex}
    for seconds in (0, 0.003, 0.01, 0.03, 0.1, 0.15):
        with anyio.move_on_after(seconds) as scope:
            info = await provider.create(SandboxConfig(image=images.busybox, labels=label), runtime)
        if not scope.cancelled_caught:
            await provider.delete(info.id)
        assert await provider.list(label) == []


OWNER = """
    import sys
    import anyio
    from agentix.api import SandboxConfig, base_runtime
    from agentix.providers.docker import DockerProvider

    async def main():
        provider = DockerProvider()
        config = SandboxConfig(image=sys.argv[1], labels={"test": sys.argv[2]})
        info = await provider.create(config, await base_runtime())
        print(info.id, flush=True)
        await anyio.sleep_forever()

    anyio.run(main)
"""


async def test_a_dead_owners_sandboxes_are_found_and_swept_and_nobody_elses(
    provider: DockerProvider, images: Any
) -> None:
    label = uuid.uuid4().hex
    owner = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", textwrap.dedent(OWNER), images.busybox, label], stdout=subprocess.PIPE, text=True
    )
    with owner:
        assert owner.stdout is not None
        orphan = (await anyio.to_thread.run_sync(owner.stdout.readline)).strip()
        assert [info.id for info in await provider.list({"test": label})] == [orphan]
        assert orphan not in [info.id for info in await provider.orphans()]
        os.kill(owner.pid, signal.SIGKILL)
        await anyio.to_thread.run_sync(owner.wait)
    orphans = [info.id for info in await provider.orphans()]
    # Any other provider on this engine that makes its first sandbox meanwhile sweeps as well.
    assert orphan in orphans or await provider.list({"test": label}) == []
    async with provider.session(SandboxConfig(image=images.busybox, labels={"test": label})) as mine:
        # The first sandbox of a provider sweeps; ours is there, what the dead one left is not.
        assert [info.id for info in await provider.list({"test": label})] == [mine.id]
