from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from agentix.runtime import wire
from agentix.sandbox import Sandbox

pytestmark = pytest.mark.anyio


async def test_output_comes_while_the_command_runs_and_input_goes_in(sandbox: Sandbox) -> None:
    async with sandbox.stream("while read line; do echo got $line; done; echo end >&2; exit 4") as running:
        for word in (b"one", b"two"):
            await running.send(word + b"\n")
            chunk = await anext(running)
            assert (chunk.stream, chunk.data) == ("stdout", b"got " + word + b"\n")
        with pytest.raises(RuntimeError, match="has not ended"):
            _ = running.result
        await running.close_input()
        rest = [(chunk.stream, chunk.data) async for chunk in running]
    assert rest == [("stderr", b"end\n")]
    assert (running.result.exit_code, running.result.stdout) == (4, b"got one\ngot two\n")
    assert (running.result.stdout_bytes, running.result.stderr_bytes) == (16, 4)


async def test_all_bytes_come_in_order_however_many(sandbox: Sandbox) -> None:
    whole = bytearray()
    async with sandbox.stream("seq 1 400000", output_limit=1000) as running:
        async for chunk in running:
            whole += chunk.data
    assert bytes(whole) == "".join(f"{number}\n" for number in range(1, 400_001)).encode()
    assert running.result.truncated
    assert running.result.stdout == bytes(whole[:500] + whole[-500:])


async def test_one_byte_at_a_time_joins_to_the_same_text(sandbox: Sandbox) -> None:
    text = "é🚀" * 200
    whole = b""
    async with sandbox.stream("dd bs=1 status=none", stdin=text.encode()) as running:
        async for chunk in running:
            whole += chunk.data
    assert whole.decode() == text


async def test_output_that_nobody_takes_waits_in_the_sandbox(sandbox: Sandbox) -> None:
    async with sandbox.stream("yes | head -c 50000000; touch written") as running:
        await anext(running)
        # The rest does not fit into what may be under way, so the command has not got to its end.
        for _ in range(20):
            assert not await sandbox.exists("written")
        result = await running.wait()
    assert result.stdout_bytes == 50_000_000


async def test_leaving_early_kills_the_command(sandbox: Sandbox) -> None:
    async with sandbox.stream("echo $$; sleep 1000") as running:
        pid = int((await anext(running)).data)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_an_error_in_the_body_comes_out_as_it_is(sandbox: Sandbox) -> None:
    for stdin in (None, b"x" * 5_000_000):
        with pytest.raises(KeyError, match="mine"):
            async with sandbox.stream("sleep 1000", stdin=stdin):
                raise KeyError("mine")


async def test_a_missing_input_file_comes_out_as_it_is(sandbox: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        async with sandbox.stream("cat", stdin=tmp_path / "missing") as running:
            await running.wait()


async def test_killing_it_gives_its_result(sandbox: Sandbox) -> None:
    async with sandbox.stream("echo up; sleep 1000") as running:
        assert (await anext(running)).data == b"up\n"
        await running.kill()
        result = await running.wait()
    assert (result.exit_code, result.signal, result.timed_out) == (143, "SIGTERM", False)


async def test_its_time_limit_holds(sandbox: Sandbox) -> None:
    async with sandbox.stream("echo up; sleep 1000", timeout_s=2) as running:
        result = await running.wait()
    assert (result.timed_out, result.stdout) == (True, b"up\n")


async def test_sending_to_a_command_that_ended_is_a_broken_pipe(sandbox: Sandbox) -> None:
    async with sandbox.stream("true") as running:
        await running.wait()
        with pytest.raises(BrokenPipeError):
            await running.send(b"x")


async def test_what_a_command_wrote_last_is_not_lost_when_a_child_holds_the_pipe(sandbox: Sandbox) -> None:
    async with sandbox.stream("sleep 500 & seq 1 10000; echo last") as running:
        whole = b"".join([chunk.data async for chunk in running])
    assert whole.endswith(b"10000\nlast\n")
    assert len(whole) == running.result.stdout_bytes


@pytest.mark.parametrize("more", [0, 3000])
async def test_what_a_command_wrote_last_to_a_terminal_waits_until_somebody_takes_it(
    sandbox: Sandbox, more: int
) -> None:
    # As much as may be under way, and something that stays in the terminal when the command has ended.
    size = wire.WINDOW - 10 + more
    script = f"head -c {size} /dev/zero | tr '\\0' x; echo last; touch ended"
    async with sandbox.stream(script, pty=True, output_limit=size) as running:
        with anyio.fail_after(60):
            while not await sandbox.exists("ended"):
                await sandbox.exec("sleep 0.01")
            # For longer than the runtime waits for what is still to arrive.
            await sandbox.exec("sleep 0.3")
        whole = b"".join([chunk.data async for chunk in running])
    assert (len(whole), whole[-7:]) == (size + 6, b"xlast\r\n")


async def test_a_terminal_that_something_left_behind_writes_to_ends_with_its_command(sandbox: Sandbox) -> None:
    with anyio.fail_after(60):
        result = await sandbox.exec("echo first; (trap '' HUP; while :; do echo more; done) &", pty=True)
    assert result.stdout.startswith(b"first\r\n")


async def test_a_terminal_can_be_talked_to(sandbox: Sandbox) -> None:
    async with sandbox.stream(["cat"], pty=True) as running:
        await running.send(b"hi\n")
        seen = b""
        with anyio.fail_after(60):
            while seen.count(b"hi") < 2:
                seen += (await anext(running)).data
        await running.close_input()
        assert (await running.wait()).exit_code == 0


async def test_a_flood_does_not_starve_small_calls(sandbox: Sandbox) -> None:
    async def flood() -> None:
        async with sandbox.stream("cat /dev/zero") as running:
            async for _ in running:
                pass

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(flood)
        with anyio.fail_after(60):
            for _ in range(20):
                assert (await sandbox.exec("echo small")).stdout == b"small\n"
        group.cancel_scope.cancel()
