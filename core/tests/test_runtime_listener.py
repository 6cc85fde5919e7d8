"""Whoever else connects with the server's socket has no part in the run."""

from __future__ import annotations

import importlib
import os
import socket
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from agentix.models import SandboxConfig
from agentix.runtime import resume
from agentix.sandbox import Sandbox

pytestmark = pytest.mark.anyio

sys.path.append(str(Path(__file__).parent / "functions"))
lossy: Any = importlib.import_module("lossy")


async def name_of(sandbox: Sandbox) -> bytes:
    return b"\0" + (await sandbox.connect())._resuming.terms["name"]


def connected(name: bytes) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX)
    # Without a time limit it waits for its turn.
    peer.connect(name)
    peer.settimeout(20)
    return peer


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


async def lose_and_go_on(provider: Any, sandbox: Sandbox) -> None:
    provider.streams[-1].cut()
    with anyio.fail_after(60):
        assert (await sandbox.exec("echo on")).text == "on\n"


async def test_connecting_often_costs_no_descriptors_and_no_answer() -> None:
    provider = lossy.LossyProvider()
    async with provider.session(SandboxConfig()) as sandbox:
        await sandbox.exec("true")
        server = provider._sandboxes[sandbox.id].process.pid
        name, before = await name_of(sandbox), descriptors(server)

        def storm() -> None:
            for _ in range(10_000):
                connected(name).close()

        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, storm)
            for number in range(50):
                assert (await sandbox.exec(["echo", str(number)])).text == f"{number}\n"
        await lose_and_go_on(provider, sandbox)
        with anyio.fail_after(60):
            # Those that have left are noticed one after the other.
            while descriptors(server) > before + 2:  # noqa: ASYNC110 - another process closes them
                await anyio.sleep(0.01)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"x",
        os.urandom(resume.ANSWER_BYTES),
        os.urandom(100_000),
        bytes(resume.ANSWER_BYTES),
        b"\0\0\0\0\x01\0\0\0\0" * 50,
    ],
    ids=["nothing", "little", "answer", "much", "zeros", "frames"],
)
async def test_garbage_and_silence_are_left_behind(said: bytes) -> None:
    provider = lossy.LossyProvider()
    async with provider.session(SandboxConfig()) as sandbox:
        await sandbox.exec("true")
        name = await name_of(sandbox)
        # More than are let in at a time, and all of them stay.
        held = []
        for _ in range(40):
            peer = connected(name)
            held.append(peer)
            try:
                peer.send(said)
            except (BrokenPipeError, ConnectionResetError):
                continue
        await lose_and_go_on(provider, sandbox)
        if len(said) >= resume.ANSWER_BYTES:
            for peer in held:
                try:
                    left = peer.recv(1 << 16)
                    assert len(left) <= resume.NONCE_BYTES
                    assert not left or peer.recv(1 << 16) == b""
                except ConnectionResetError:
                    continue
        await lose_and_go_on(provider, sandbox)
        for peer in held:
            peer.close()


async def test_an_answer_to_another_challenge_is_worth_nothing() -> None:
    provider = lossy.LossyProvider()
    async with provider.session(SandboxConfig()) as sandbox:
        await sandbox.exec("true")
        resuming = (await sandbox.connect())._resuming
        first, second = connected(await name_of(sandbox)), connected(await name_of(sandbox))
        challenge = first.recv(resume.NONCE_BYTES)
        assert second.recv(resume.NONCE_BYTES) != challenge
        heard = resume.answer(resuming.terms["secret"], challenge, bytes(resume.NONCE_BYTES), resuming.received)
        second.send(heard)
        assert second.recv(100) == b""
        assert (await sandbox.exec("echo on")).text == "on\n"
        first.close()
        second.close()


async def test_who_takes_the_stream_over_is_the_only_one_that_has_it() -> None:
    provider = lossy.LossyProvider()
    async with provider.session(SandboxConfig()) as sandbox:
        await sandbox.exec("true")
        await lose_and_go_on(provider, sandbox)
        await lose_and_go_on(provider, sandbox)
        with anyio.fail_after(60):
            # The first bridge ended with its stream.
            while provider._bridges[0].poll() is None:  # noqa: ASYNC110 - another process ends by itself
                await anyio.sleep(0.01)
        assert provider._bridges[1].poll() is None


async def test_the_secret_stands_nowhere_where_a_command_could_read_it() -> None:
    provider = lossy.LossyProvider()
    async with provider.session(SandboxConfig()) as sandbox:
        await sandbox.exec("true")
        await lose_and_go_on(provider, sandbox)
        secret = (await sandbox.connect())._resuming.terms["secret"]
        seen = await sandbox.exec("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null", output_limit=1 << 24)
        assert secret not in seen.stdout
        assert secret.hex().encode() not in seen.stdout
