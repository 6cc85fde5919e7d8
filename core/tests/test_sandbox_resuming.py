"""A stream that is lost goes on as another one: nothing is missing, nothing happens twice."""

from __future__ import annotations

import hashlib
import importlib
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from mixed_work import mixed_work

from agentix.errors import HostError, SandboxGone, WireError
from agentix.models import SandboxConfig
from agentix.runtime import resume
from agentix.sandbox import Sandbox
from agentix.sandbox import resuming as dialling

pytestmark = pytest.mark.anyio

sys.path.append(str(Path(__file__).parent / "functions"))
calls: Any = importlib.import_module("remote_functions")
lossy: Any = importlib.import_module("lossy")

HELLO = 2_000
BYTES = hashlib.shake_256(b"content").digest(1_500_000)


def lives(seed: int, *, most: int) -> Any:
    """After how many bytes each stream of a run breaks; the eleventh does not, so that every run ends."""
    chance = random.Random(seed)
    # A server that has not heard the whole hello does not know whom to wait for.
    left = [*(chance.randrange(1, most) for _ in range(9)), HELLO + chance.randrange(1, most)]
    return lambda: left.pop() if left else None


async def python(sandbox: Sandbox, found: dict[str, Any]) -> None:
    found["remote"] = [await sandbox.remote(calls.add, number, b=2) for number in range(5)]
    found["blocking"] = await sandbox.remote(calls.echo_blocking, BYTES[:300_000])
    found["iterated"] = [number async for number in sandbox.remote_iter(calls.count, 50)]


async def everything(sandbox: Sandbox, folder: Path) -> dict[str, Any]:
    return await mixed_work(sandbox, folder, BYTES, commands=15, files=20, lines=150_000, more=python)


@pytest.fixture(scope="module")
def uncut(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What comes of it where no stream is lost."""
    from agentix.sandbox import HostProcessProvider

    async def run() -> dict[str, Any]:
        async with HostProcessProvider().session(SandboxConfig()) as sandbox:
            return await everything(sandbox, tmp_path_factory.mktemp("uncut"))

    return anyio.run(run)


@pytest.mark.parametrize("seed", range(8))
async def test_wherever_streams_break_the_results_are_those_of_a_run_without(
    seed: int, uncut: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialling, "PAUSES_S", (0.0, 0.01))
    provider = lossy.LossyProvider(lives(seed, most=(600, 5_000, 70_000, 1_500_000)[seed % 4]))
    async with provider.session(SandboxConfig()) as sandbox:
        found = await everything(sandbox, tmp_path)
        connection = await sandbox.connect()
        # Neither side keeps what the other has.
        assert connection._resuming.kept.size <= resume.KEPT + resume.ACKNOWLEDGED_EVERY
    assert found.keys() == uncut.keys()
    assert [name for name in uncut if found[name] != uncut[name]] == []
    assert len(provider.streams) > 2
    assert len(set(provider.names)) == 1


async def test_a_command_goes_on_while_nobody_listens() -> None:
    provider = lossy.LossyProvider()
    async with provider.session(SandboxConfig()) as sandbox, sandbox.stream("echo on; read go; echo $go") as running:
        assert (await anext(running)).data == b"on\n"
        provider.streams[0].cut()
        provider.refuse_with = [HostError("the engine is being restarted")] * 4
        await running.send(b"further\n")
        assert (await running.wait()).stdout == b"on\nfurther\n"
        assert sandbox.alive
    assert len(provider.names) == 5


async def test_what_ended_in_the_meantime_is_told_afterwards(tmp_path: Path) -> None:
    provider = lossy.LossyProvider()
    async with provider.session(SandboxConfig()) as sandbox:
        await sandbox.exec("true")
        provider.refuse_with = [HostError("not now")] * 3

        async def cut() -> None:
            await anyio.lowlevel.checkpoint()
            provider.streams[0].cut()

        async with anyio.create_task_group() as group:
            group.start_soon(cut)
            result = await sandbox.exec(f"echo ran >> {tmp_path}/ran; echo out; exit 3")
        assert (result.exit_code, result.stdout) == (3, b"out\n")
        assert (tmp_path / "ran").read_text() == "ran\n"


async def test_a_sandbox_that_is_known_to_be_gone_is_not_dialled_again() -> None:
    provider = lossy.LossyProvider()
    async with provider.session(SandboxConfig()) as sandbox:
        await sandbox.exec("true")
        provider.refuse_with = [SandboxGone("it was killed for memory", exit_code=137, oom=True)]
        provider.streams[0].cut()
        started = time.monotonic()
        with pytest.raises(SandboxGone, match="killed for memory") as gone:
            await sandbox.exec("sleep 60")
        assert (gone.value.exit_code, gone.value.detail) == (137, "oom")
        assert time.monotonic() - started < 50
        assert not sandbox.alive
    assert len(provider.names) == 1


@pytest.mark.parametrize("failure", [HostError("no engine answers"), OSError(111, "refused")])
async def test_a_stream_that_cannot_be_had_again_is_a_typed_error_within_its_time(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = lossy.LossyProvider()
    provider.reconnect_s = 0.5
    async with provider.session(SandboxConfig()) as sandbox:
        pid = int((await sandbox.exec("echo $$; exec sleep 300 & echo $!")).text.split()[-1])
        provider.refuse_with = [failure] * 100
        provider.streams[0].cut()
        with anyio.fail_after(60), pytest.raises(SandboxGone, match=r"could not be had again: .*(no engine|refused)"):
            await sandbox.exec("true")
        # A server whose host does not come back ends with all that it started.
        with anyio.fail_after(60):
            while Path(f"/proc/{pid}").exists():  # noqa: ASYNC110, ASYNC240 - another process ends
                await anyio.sleep(0.01)


async def test_a_provider_that_fails_in_its_own_way_ends_calls_and_nothing_else() -> None:
    provider = lossy.LossyProvider()
    async with provider.session(SandboxConfig()) as sandbox:
        await sandbox.exec("true")
        provider.refuse_with = [ValueError("what a plugin may do")]
        provider.streams[0].cut()
        with pytest.raises(HostError, match="what a plugin may do"):
            await sandbox.exec("true")


async def test_a_session_may_end_while_its_stream_is_lost() -> None:
    provider = lossy.LossyProvider()
    with anyio.fail_after(60):
        async with provider.session(SandboxConfig()) as sandbox:
            await sandbox.exec("true")
            provider.refuse_with = [HostError("not now")] * 1000
            provider.streams[0].cut()
            while not provider.names:  # noqa: ASYNC110
                await anyio.sleep(0.01)
            provider._sandboxes[sandbox.id].process.kill()
    assert sandbox.unreleased is None


async def test_a_stream_that_carries_nothing_any_more_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = lossy.LossyProvider()
    provider.heartbeat_s, provider.missed_heartbeats = 0.05, 1000
    async with provider.session(SandboxConfig()) as sandbox:
        await sandbox.exec("true")
        first, connection, bridge = provider.streams[0], await sandbox.connect(), provider.bridge

        async def patiently(sandbox_id: str, argv: Any) -> Any:
            connection._missed = 1000
            return await bridge(sandbox_id, argv)

        monkeypatch.setattr(provider, "bridge", patiently)

        async def nothing(max_bytes: int = 0) -> bytes:
            await anyio.sleep_forever()
            return b""

        first.receive = nothing
        # What waits in a receive that has begun still comes; after it, nothing does.
        await sandbox.exec("true")
        # From now until it is dialled again: a server may be slow at any time.
        connection._missed = 2
        with anyio.fail_after(60):
            assert (await sandbox.exec("echo still")).text == "still\n"
        assert len(provider.streams) == 2


async def test_a_sandbox_that_never_will_answer_is_told_by_its_provider() -> None:
    provider = lossy.LossyProvider()
    provider.heartbeat_s, provider.missed_heartbeats = 0.05, 1000

    async def stalled(sandbox_id: str) -> SandboxGone | None:
        return SandboxGone("somebody paused it")

    async with provider.session(SandboxConfig()) as sandbox:
        await sandbox.exec("true")
        provider.stalled = stalled
        provider._sandboxes[sandbox.id].process.send_signal(19)
        with anyio.fail_after(60), pytest.raises(SandboxGone, match="paused"):
            await sandbox.exec("true")
        provider._sandboxes[sandbox.id].process.send_signal(18)


async def test_what_is_not_the_server_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = lossy.LossyProvider()
    async with provider.session(SandboxConfig()) as sandbox:
        await sandbox.exec("true")

        async def forged(sandbox_id: str, argv: Any) -> Any:
            import socket

            from agentix.sandbox import SocketStream

            ours, theirs = socket.socketpair()
            theirs.send(os.urandom(resume.NONCE_BYTES) + os.urandom(resume.CONFIRMATION_BYTES))
            provider.kept_open = theirs
            return SocketStream(ours)

        monkeypatch.setattr(provider, "bridge", forged)
        provider.streams[0].cut()
        with pytest.raises(WireError, match="secret"):
            await sandbox.exec("true")
        provider.kept_open.close()


async def test_little_is_kept_of_what_was_sent_and_has_arrived() -> None:
    provider = lossy.LossyProvider()
    async with provider.session(SandboxConfig()) as sandbox:
        for _ in range(4):
            await sandbox.write_file("big", BYTES)
            assert await sandbox.read_file("big") == BYTES
        kept = (await sandbox.connect())._resuming.kept
        await sandbox.exec("true")
        assert kept.sent > 4 * len(BYTES)
        assert kept.size < resume.ACKNOWLEDGED_EVERY + (1 << 18) + 4096
        assert sum(map(len, kept._pieces)) <= kept.size + (1 << 19)
