"""Python calls in a sandbox that sends what no honest one sends."""

from __future__ import annotations

import importlib
import logging
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentix.errors import AgentixError, HostError, RemoteCallError, ResultError, WireError, WorkerExited
from agentix.models import RuntimeMount, SandboxConfig, SandboxInfo
from agentix.runtime import answer, plain, wire
from agentix.sandbox import BaseProvider, Sandbox, SocketStream, remote
from agentix.sandbox.pickling import Pickled
from agentix.sandbox.replay import LINES_AT_ONCE, LONGEST_LINE, Replay

pytestmark = pytest.mark.anyio

sys.path.append(str(Path(__file__).parent / "functions"))
calls: Any = importlib.import_module("remote_functions")

GREETING = {"protocol": wire.PROTOCOL, "pid": 1, "uid": 0, "uname": [], "python": "3"}
ASKED = remote.Request(
    function="m:f", payload=Pickled(()), rebuild=lambda value: value, iterate=False, limit=10_000, name="f", main=None
)
Answer = Callable[["Scripted", int], Awaitable[None]]


class Scripted(BaseProvider):
    """A provider whose runtime answers every Python call as a test says."""

    name = "scripted"
    mounts = False

    def __init__(self, play: Answer) -> None:
        self._play = play
        self._ours: SocketStream | None = None

    async def runtime(self) -> RuntimeMount:
        return RuntimeMount(path=Path("/"), digest="", argv=("python",))

    async def create(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
        return SandboxInfo(id="scripted", provider=self.name, workdir="/", created_at=0)

    async def dial(self, sandbox_id: str) -> SocketStream:
        ours, theirs = socket.socketpair()
        self._ours = SocketStream(ours)
        return SocketStream(theirs)

    async def delete(self, sandbox_id: str) -> None: ...

    async def list(self, labels: Any) -> list[SandboxInfo]:
        return []

    async def send(self, *frames: bytes) -> None:
        assert self._ours is not None
        await self._ours.send(b"".join(frames))

    async def serve(self) -> None:
        """Be the runtime until the host hangs up."""
        reader = wire.FrameReader(wire.FROM_HOST)
        while self._ours is None:
            await anyio.lowlevel.checkpoint()
        try:
            while True:
                for kind, number, payload in reader.feed(await self._ours.receive()):
                    if kind == wire.HELLO:
                        await self.send(wire.frame(wire.HELLO, 0, wire.encode(GREETING)))
                    elif kind == wire.CALL and wire.decode(payload)[0] == "python":
                        await self._play(self, number)
                    elif kind == wire.CANCEL:
                        await self.send(wire.frame(wire.RESULT, number, wire.encode(answer.CANCELLED)))
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            await self._ours.aclose()


async def against(play: Answer, use: Callable[[Sandbox], Awaitable[Any]]) -> Any:
    """What a call comes to where the runtime plays."""
    provider = Scripted(play)
    result: Any = None
    async with anyio.create_task_group() as group:
        group.start_soon(provider.serve)
        with anyio.fail_after(60):
            async with provider.session(SandboxConfig()) as sandbox:
                try:
                    result = await use(sandbox)
                except AgentixError as error:
                    result = error
        group.cancel_scope.cancel()
    return result


answers = st.one_of(
    st.none(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.text(),
    st.binary(max_size=60),
    st.tuples(st.sampled_from([bytes([code]) for code in b"VDELSXAC"]), st.binary(max_size=60)).map(b"".join),
    st.tuples(
        st.sampled_from([answer.RAISED, answer.UNFIT, answer.EXITED]),
        st.dictionaries(
            st.sampled_from(["type", "message", "traceback", "loading", "path", "reason", "status", "oom", "why"]),
            st.none() | st.booleans() | st.integers(-5, 1 << 40) | st.text() | st.binary(max_size=5),
        ).map(wire.encode),
    ).map(b"".join),
)


@settings(max_examples=400, deadline=None)
@given(answers, st.binary(max_size=40))
def test_any_answer_is_a_value_or_an_error_of_the_call(told: Any, collected: bytes) -> None:
    async def outcome() -> None:
        try:
            await remote._outcome(told, bytearray(collected), ASKED)
        except RemoteCallError as error:
            assert "\x1b" not in str(error)

    anyio.run(outcome)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(told=answers, pieces=st.lists(st.binary(min_size=1, max_size=50), max_size=3))
async def test_a_runtime_that_answers_anything_is_survived(anyio_backend: str, told: Any, pieces: list[bytes]) -> None:
    if told == answer.ABSENT:
        return

    async def play(runtime: Scripted, number: int) -> None:
        frames = [wire.data(number, wire.PLAIN, piece) for piece in pieces]
        await runtime.send(*frames, wire.frame(wire.RESULT, number, wire.encode(told)))

    await against(play, lambda sandbox: sandbox.remote(calls.untyped, 1))


async def test_an_answer_without_an_end_is_cut_off_at_the_limit() -> None:
    sent = 0

    async def play(runtime: Scripted, number: int) -> None:
        nonlocal sent
        for _ in range(100):
            await runtime.send(wire.data(number, wire.PLAIN, bytes(1000)))
            sent += 1000

    result = await against(play, lambda sandbox: sandbox.call(calls.untyped, (1,), result_limit=50_000))
    assert isinstance(result, ResultError) and "larger than 50000 bytes" in str(result)


async def test_a_pickle_is_no_answer() -> None:
    # What it would print if anything unpickled it.
    evil = b"cbuiltins\nprint\n(S'unpickled'\ntR."

    async def play(runtime: Scripted, number: int) -> None:
        await runtime.send(wire.frame(wire.RESULT, number, wire.encode(answer.VALUE + evil)))

    result = await against(play, lambda sandbox: sandbox.remote(calls.untyped, 1))
    assert isinstance(result, ResultError) and "what is no value" in str(result)


async def test_a_value_that_is_not_what_was_promised_never_reaches_the_caller() -> None:
    async def play(runtime: Scripted, number: int) -> None:
        forged = plain.encode({"name": 1}, limit=1000)
        await runtime.send(wire.frame(wire.RESULT, number, wire.encode(answer.VALUE + bytes(forged))))

    result = await against(play, lambda sandbox: sandbox.remote(calls.item))
    assert isinstance(result, ResultError) and "item returned something else" in str(result)


async def test_a_worker_that_is_never_there_is_not_asked_for_ever() -> None:
    asked = 0

    async def play(runtime: Scripted, number: int) -> None:
        nonlocal asked
        asked += 1
        exited = answer.EXITED + wire.encode({"status": 9, "oom": True, "why": ""})
        worker = number - 1
        await runtime.send(
            wire.frame(wire.RESULT, number, wire.encode(answer.ABSENT)),
            wire.frame(wire.RESULT, worker, wire.encode(exited)),
        )

    result = await against(play, lambda sandbox: sandbox.remote(calls.untyped, 1))
    assert isinstance(result, WorkerExited) and result.oom and asked == 3


async def test_items_of_a_forged_length_are_refused() -> None:
    async def play(runtime: Scripted, number: int) -> None:
        await runtime.send(wire.data(number, wire.PLAIN, b"\xff\xff\xff\xff"))

    async def use(sandbox: Sandbox) -> list[int]:
        return [item async for item in sandbox.remote_iter(calls.count, 1)]

    assert isinstance(await against(play, use), ResultError)


async def test_frames_that_break_the_protocol_end_the_connection_with_its_name() -> None:
    async def play(runtime: Scripted, number: int) -> None:
        await runtime.send(wire.frame(wire.RESULT, number + 50, wire.encode(None)))

    assert isinstance(await against(play, lambda sandbox: sandbox.remote(calls.untyped, 1)), WireError)


UNKNOWN = wire.frame(wire.RESULT, 999, b"V" + b"n")
FORGED = {
    "noise": b"\xff" * 200,
    "a call that is not under way": UNKNOWN,
    "a kind that only the host sends": wire.frame(wire.CALL, 1, b""),
    "credit for nothing": wire.credit(2, 1 << 30),
    "an empty answer": wire.frame(wire.RESULT, 2, b""),
    "no log in its own name": wire.frame(wire.DATA, 1, b"\x00aaaaaaaa"),
    "a log of a wrong length": wire.frame(wire.DATA, 1, b"\x03\x00\x00\xff\xffaaaaaa"),
    "a piece on another channel": wire.data(2, wire.STDERR, b"x"),
    "more than the credit, and noise": wire.data(2, wire.PLAIN, bytes(wire.CHUNK)) * 40 + b"\xff" * 20,
}


@pytest.mark.parametrize("frames", FORGED.values(), ids=FORGED.keys())
async def test_a_worker_that_breaks_the_protocol_ends_and_its_sandbox_does_not(sandbox: Sandbox, frames: bytes) -> None:
    # The worker is call 1, this is call 2.
    with pytest.raises((WorkerExited, ResultError)) as caught:
        await sandbox.call(calls.forge, (frames,), timeout_s=30)
    if isinstance(caught.value, WorkerExited):
        assert "broke the protocol" in str(caught.value)
    assert (await sandbox.exec("echo fine")).text == "fine\n"
    assert await sandbox.remote(calls.add, 1) == 2


async def test_a_child_that_breaks_the_protocol_ends_alone(sandbox: Sandbox) -> None:
    before = await sandbox.remote(calls.worker_pid)
    with pytest.raises(WorkerExited):
        await sandbox.call(calls.forge_in_child, (b"\xff" * 100,), timeout_s=30)
    assert await sandbox.remote(calls.worker_pid) == before


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=300))))
def test_anything_can_be_logged(pieces: list[tuple[int, bytes]]) -> None:
    replay = Replay("x")
    for channel, piece in pieces:
        replay.feed(channel, piece)
    replay.end()


def test_logs_are_bounded_in_number_length_and_memory(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    # With each second that this takes, more of them are let in.
    monkeypatch.setattr("agentix.sandbox.replay.time", SimpleNamespace(monotonic=lambda: 0.0))
    replay = Replay("a.b")
    for _ in range(2000):
        replay.feed(wire.STDOUT, b"x\n" * 1000)
    replay.feed(wire.STDOUT, b"y" * 1_000_000)
    assert replay.flooded
    assert len(caplog.records) < LINES_AT_ONCE * 2
    replay.end()
    assert "were left out: there were too many" in caplog.records[-1].getMessage()
    assert {record.name for record in caplog.records} == {"agentix.sandbox.a_b"}
    assert max(len(record.getMessage()) for record in caplog.records) <= LONGEST_LINE
    assert sum(len(rest) for rest in replay._partial.values()) == 0


def test_a_record_has_a_level_that_exists(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    replay = Replay("x")
    for level in (-5, 10_000):
        record = wire.encode([level, "n", "text"])
        replay.feed(answer.LOG, len(record).to_bytes(4, "big") + record)
    assert [record.levelno for record in caplog.records] == [logging.DEBUG, logging.CRITICAL]


def test_host_errors_stay_what_they_are() -> None:
    assert not issubclass(RemoteCallError, HostError)
