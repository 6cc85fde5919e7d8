"""A sandbox of the provider `local` tells the processes of one command from those of another, however they are run."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from agentix.api import Sandbox, SandboxConfig
from agentix.providers.local import LocalProvider

pytestmark = pytest.mark.anyio

GRACE_S = 1.0
"""How long what is to end may take before it is killed."""

DETACHED = "setsid sleep 1000 >/dev/null 2>&1 & setsid sh -c 'sleep 1001 & sleep 1002' >/dev/null 2>&1 &"


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with LocalProvider() as provider, provider.session(SandboxConfig()) as sandbox:
        yield sandbox


async def test_one_command_at_a_time_is_a_child_of_the_server(sandbox: Sandbox) -> None:
    for _ in range(3):
        assert (await sandbox.exec("echo $PPID")).stdout == b"1\n"
    assert await sandbox.count_processes() == 0
    async with sandbox.stream("echo $PPID; read line") as first:
        async for chunk in first:
            assert chunk.data == b"1\n"
            break
        assert (await sandbox.exec("echo $PPID")).stdout != b"1\n"
        await first.close_input()
        assert (await first.wait()).exit_code == 1
    assert (await sandbox.exec("echo $PPID")).stdout == b"1\n"


async def test_a_command_that_is_timed_out_takes_along_what_it_has_detached(sandbox: Sandbox) -> None:
    result = await sandbox.exec(f"{DETACHED} trap '' TERM; while :; do sleep 1; done", timeout_s=3)
    assert result.timed_out
    assert result.signal == "SIGKILL"
    assert await sandbox.count_processes() == 0
    assert (await sandbox.exec("echo $PPID")).stdout == b"1\n"


async def test_what_ends_at_the_first_signal_is_not_waited_for(sandbox: Sandbox) -> None:
    # What is still being started when the signals go out may miss its own, and be killed after the grace.
    all_there = "until [ $(cat /proc/[0-9]*/comm 2>/dev/null | grep -cx sleep) = 3 ]; do sleep 0.01; done"
    took = []
    # Where the machine is busy, it may take another attempt until nothing else came between.
    while len(took) < 10 and min(took, default=GRACE_S) >= GRACE_S:
        async with sandbox.stream(f"{DETACHED} {all_there}; echo; exec sleep 1003") as running:
            async for _ in running:
                break
            began = anyio.current_time()
            await running.kill()
            result = await running.wait()
            took.append(anyio.current_time() - began)
        assert result.signal == "SIGTERM"
        assert await sandbox.count_processes() == 0
    assert min(took) < GRACE_S


async def test_a_command_that_is_ended_leaves_the_other_ones_alone(sandbox: Sandbox) -> None:
    async with sandbox.stream("echo; exec sleep 1004") as first:
        async for _ in first:
            break
        # Supervised, as it is not alone; what it leaves must not be taken for the first one's.
        left = await sandbox.exec("setsid sleep 1005 >/dev/null 2>&1 & echo $!")
        async with sandbox.stream("sh -c 'echo; sleep 1006'; echo") as second:
            async for _ in second:
                break
            await first.kill()
            assert (await first.wait()).signal == "SIGTERM"
            names = await sandbox.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
            assert b"sleep 1004" not in names.stdout
            assert b"sleep 1005" in names.stdout
            assert b"sleep 1006" in names.stdout
    assert (await sandbox.exec(f"kill -0 {left.text.strip()}")).ok


async def test_what_a_command_has_left_lives_on_when_the_next_one_is_ended(sandbox: Sandbox) -> None:
    left = await sandbox.exec("setsid sleep 1007 >/dev/null 2>&1 & echo $!")
    assert (await sandbox.exec("sleep 1008", timeout_s=0.2)).timed_out
    assert (await sandbox.exec(f"kill -0 {left.text.strip()}")).ok
    assert await sandbox.count_processes() == 1


async def test_a_command_that_kills_all_it_may_ends_itself_only(sandbox: Sandbox) -> None:
    await sandbox.exec("kill -9 -1; kill -9 1 $$")
    assert (await sandbox.exec("echo still here")).stdout == b"still here\n"


async def test_programs_that_cannot_be_started_are_results(sandbox: Sandbox) -> None:
    missing = await sandbox.exec(["no-such-program"])
    assert (missing.exit_code, missing.stderr) == (127, b"agentix: no-such-program: No such file or directory\n")
    assert (await sandbox.exec(["/etc/passwd"])).exit_code == 126
    with pytest.raises(FileNotFoundError):
        await sandbox.exec(["true"], cwd="/no/such/place")
    assert (await sandbox.exec(["true"])).ok
