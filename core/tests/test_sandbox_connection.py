from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentix.errors import AgentixError, HostError, SandboxGone, WireError
from agentix.models import ExecResult, RuntimeMount, SandboxConfig, SandboxInfo
from agentix.runtime import resume, wire
from agentix.sandbox import BaseProvider, Sandbox, SocketStream

pytestmark = pytest.mark.anyio

Runtime = Callable[["Peer"], Coroutine[Any, Any, None]]
GREETING = {"protocol": wire.PROTOCOL, "pid": 1, "uid": 0, "uname": [], "python": "3"}


class Peer:
    """The other end of the wire, played by a test."""

    def __init__(self, stream: SocketStream) -> None:
        self.stream = stream
        self._reader = wire.FrameReader(wire.FROM_HOST)
        self._frames: list[tuple[int, int, bytes]] = []

    async def receive(self) -> tuple[int, int, bytes]:
        while not self._frames:
            self._frames = self._reader.feed(await self.stream.receive())
        return self._frames.pop(0)

    async def receive_kind(self, kind: int) -> tuple[int, bytes]:
        while True:
            got, number, payload = await self.receive()
            if got == kind:
                return number, payload

    async def send(self, *frames: bytes) -> None:
        await self.stream.send(b"".join(frames))

    async def greet(self) -> None:
        await self.receive_kind(wire.HELLO)
        await self.send(wire.frame(wire.HELLO, 0, wire.encode(GREETING)))

    async def ignore(self) -> None:
        """Take whatever comes until the host hangs up."""
        while True:
            await self.receive()


class Scripted(BaseProvider):
    """A provider whose sandboxes' runtime is a function of the test."""

    name = "scripted"

    def __init__(self, runtime: Runtime, group: anyio.abc.TaskGroup) -> None:
        self._runtime = runtime
        self._group = group
        self.deleted = 0

    async def runtime(self) -> RuntimeMount:
        raise NotImplementedError

    async def create(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
        return SandboxInfo(id="s1", provider=self.name)

    async def dial(self, sandbox_id: str) -> SocketStream:
        ours, theirs = socket.socketpair()

        async def play() -> None:
            async with SocketStream(theirs) as stream:
                try:
                    await self._runtime(Peer(stream))
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    return

        self._group.start_soon(play)
        return SocketStream(ours)

    async def delete(self, sandbox_id: str) -> None:
        self.deleted += 1

    async def list(self, labels: object) -> list[SandboxInfo]:
        return []

    async def bridge(self, sandbox_id: str, argv: object) -> SocketStream:
        raise await self.explain(sandbox_id)

    async def explain(self, sandbox_id: str) -> SandboxGone:
        return SandboxGone("it was killed for memory", exit_code=137, oom=True, log_tail="last words")


class Ready(Scripted):
    """The same without a base runtime to build."""

    async def runtime(self) -> RuntimeMount:
        from pathlib import Path

        return RuntimeMount(path=Path("/"), digest="", argv=())


@asynccontextmanager
async def scripted(runtime: Runtime, **settings: object) -> AsyncIterator[Sandbox]:
    async with anyio.create_task_group() as group:
        provider = Ready(runtime, group)
        for name, value in settings.items():
            setattr(provider, name, value)
        error: BaseException | None = None
        try:
            async with provider.session(SandboxConfig()) as sandbox:
                yield sandbox
        except BaseException as raised:
            error = raised
        assert provider.deleted == 1
        group.cancel_scope.cancel()
    if error is not None:
        raise error


async def test_when_the_wire_ends_every_pending_call_says_why() -> None:
    async def runtime(peer: Peer) -> None:
        await peer.greet()
        for _ in range(3):
            await peer.receive_kind(wire.CALL)

    errors: list[SandboxGone] = []
    async with scripted(runtime) as sandbox:

        async def call() -> None:
            with pytest.raises(SandboxGone, match="killed for memory") as gone:
                await sandbox.exec("sleep 100")
            errors.append(gone.value)

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(call)
        assert not sandbox.alive
        with pytest.raises(SandboxGone, match="killed for memory"):
            await sandbox.exists("/")
    assert [(error.exit_code, error.oom, error.log_tail, error.detail) for error in errors] == [
        (137, True, "last words", "oom")
    ] * 3
    assert len({id(error) for error in errors}) == 3


async def test_a_dying_wire_cancels_nothing_but_calls() -> None:
    async def runtime(peer: Peer) -> None:
        await peer.greet()
        await peer.receive_kind(wire.CALL)

    async with scripted(runtime) as sandbox:
        with pytest.raises(SandboxGone):
            await sandbox.exists("/")
        # Were anything cancelled, this would raise.
        await anyio.lowlevel.checkpoint()
        await anyio.sleep(0.01)


async def test_a_runtime_that_stays_silent_though_asked_is_gone() -> None:
    pings = 0

    async def runtime(peer: Peer) -> None:
        nonlocal pings
        await peer.greet()
        while True:
            await peer.receive_kind(wire.PING)
            pings += 1

    async with scripted(runtime, heartbeat_s=0.02, missed_heartbeats=3) as sandbox:
        with pytest.raises(SandboxGone, match="not answered"), anyio.fail_after(60):
            await sandbox.exec("sleep 100")
        # Each was sent before it was given up; the other end may have yet to read the last one.
        with anyio.fail_after(60):
            while pings < 3:  # noqa: ASYNC110
                await anyio.sleep(0.001)
    assert pings == 3


async def test_a_runtime_that_answers_may_be_quiet_for_long() -> None:
    async def runtime(peer: Peer) -> None:
        await peer.greet()
        number, _ = await peer.receive_kind(wire.CALL)
        for _ in range(40):
            await peer.receive_kind(wire.PING)
            await peer.send(wire.frame(wire.PONG, 0))
        await peer.send(wire.frame(wire.RESULT, number, wire.encode(True)))
        await peer.ignore()

    async with scripted(runtime, heartbeat_s=0.01, missed_heartbeats=20) as sandbox:
        assert await sandbox.exists("/")


RESULT = {"status": 0, "written": [0, 0], "timed_out": False, "left": 0}

FORGED: dict[str, Callable[[int], bytes]] = {
    "garbage": lambda call: b"\xff" * 100,
    "a frame of unknown kind": lambda call: wire.frame(99, call),
    "a frame that only the host sends": lambda call: wire.frame(wire.CALL, call),
    "a frame that is too long": lambda call: (1 << 31).to_bytes(4, "big") + bytes([wire.DATA]) + bytes(4),
    "a call that is not under way": lambda call: wire.data(call + 1, wire.STDOUT, b"x"),
    "a second hello": lambda call: wire.frame(wire.HELLO, 0, wire.encode(GREETING)),
    "a result that is no value": lambda call: wire.frame(wire.RESULT, call, b"\x00"),
    "a result of another shape": lambda call: wire.frame(wire.RESULT, call, wire.encode([1, 2])),
    "a result without a status": lambda call: wire.frame(wire.RESULT, call, wire.encode({**RESULT, "status": None})),
    "a status that is none": lambda call: wire.frame(wire.RESULT, call, wire.encode({**RESULT, "status": 0x7F})),
    "a huge status": lambda call: wire.frame(wire.RESULT, call, wire.encode({**RESULT, "status": 1 << 62})),
    "fewer bytes than came": lambda call: (
        wire.data(call, wire.STDOUT, b"x") + wire.frame(wire.RESULT, call, wire.encode(RESULT))
    ),
    "more output than was asked for": lambda call: wire.data(call, wire.STDOUT, b"x" * 2000),
    "output on an unknown channel": lambda call: wire.data(call, 9, b"x"),
    "output that is nothing": lambda call: wire.frame(wire.DATA, call, b"\x01"),
    "credit that was not used": lambda call: wire.credit(call, 1 << 31),
    "an acknowledgement of what nobody keeps": lambda call: wire.ack(1),
    "an error of no form": lambda call: wire.frame(wire.ERROR, call, wire.encode("boom")),
    "an errno of no form": lambda call: wire.frame(wire.ERROR, call, wire.encode({"kind": "os", "errno": "x"})),
}


@pytest.mark.parametrize("forged", FORGED)
async def test_what_is_not_the_protocol_is_a_wire_error(forged: str) -> None:
    async def runtime(peer: Peer) -> None:
        await peer.greet()
        number, _ = await peer.receive_kind(wire.CALL)
        await peer.send(FORGED[forged](number))
        await peer.ignore()

    async with scripted(runtime) as sandbox:
        with pytest.raises(WireError), anyio.fail_after(60):
            await sandbox.exec("true", output_limit=1000)


async def test_an_acknowledgement_of_what_was_not_sent_is_a_wire_error() -> None:
    async def runtime(peer: Peer) -> None:
        await peer.greet()
        await peer.receive_kind(wire.CALL)
        await peer.send(wire.ack(1), wire.ack(0), wire.ack(1 << 40))
        await peer.ignore()

    async with scripted(runtime, reconnect_s=5.0) as sandbox:
        with pytest.raises(WireError, match="acknowledged of"), anyio.fail_after(60):
            await sandbox.exec("true")


async def test_a_runtime_that_acknowledges_nothing_holds_up_bulk_data_and_nothing_else() -> None:
    received = 0

    async def runtime(peer: Peer) -> None:
        nonlocal received
        await peer.greet()
        while True:
            kind, number, payload = await peer.receive()
            if kind == wire.DATA:
                received += len(payload) - 1
                await peer.send(wire.credit(number, len(payload) - 1))
            elif kind == wire.CALL and wire.decode(payload)[0] == "exists":
                await peer.send(wire.frame(wire.RESULT, number, wire.encode(True)))

    async with scripted(runtime, reconnect_s=5.0) as sandbox, anyio.create_task_group() as group:
        group.start_soon(sandbox.write_file, "/f", bytes(4 * resume.KEPT))
        kept = (await sandbox.connect())._resuming.kept  # type: ignore[union-attr]
        with anyio.fail_after(60):
            while kept.size < resume.KEPT:  # noqa: ASYNC110
                await anyio.sleep(0.001)
            assert await sandbox.exists("/")
        assert kept.size < resume.KEPT + (1 << 19)
        assert received <= kept.size
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            # Else the writer may hear of the end of the sandbox before it hears that it was cancelled.
            await anyio.wait_all_tasks_blocked()
            await sandbox.aclose()


@pytest.mark.parametrize("told_by", ["its engine", "its stream"])
async def test_a_command_that_was_killed_with_its_sandbox_has_no_result(told_by: str) -> None:
    async def runtime(peer: Peer) -> None:
        await peer.greet()
        number, _ = await peer.receive_kind(wire.CALL)
        await peer.send(wire.frame(wire.RESULT, number, wire.encode({**RESULT, "status": 9})))
        if told_by == "its engine":
            await peer.ignore()

    async def stalled(sandbox_id: str) -> SandboxGone | None:
        return SandboxGone("killed for memory, says the engine")

    settings = {"stalled": stalled} if told_by == "its engine" else {}
    async with scripted(runtime, **settings) as sandbox:
        with anyio.fail_after(60), pytest.raises(SandboxGone, match="killed for memory"):
            await sandbox.exec("sleep 300")
        assert not sandbox.alive


async def test_more_data_than_there_was_credit_for_is_a_wire_error() -> None:
    async def runtime(peer: Peer) -> None:
        await peer.greet()
        number, _ = await peer.receive_kind(wire.CALL)
        while True:
            await peer.send(wire.data(number, wire.STDOUT, bytes(wire.CHUNK)))

    async with scripted(runtime) as sandbox, sandbox.stream("yes") as running:
        with anyio.fail_after(60):
            while sandbox.alive:  # noqa: ASYNC110
                await anyio.sleep(0.001)
        with pytest.raises(WireError, match="more data"):
            await running.wait()


@pytest.mark.parametrize("greeting", [None, {}, {"protocol": 99, "pid": 1}, {"protocol": 1, "pid": "x"}])
async def test_a_hello_that_is_none_ends_the_session_before_it_begins(greeting: object) -> None:
    async def runtime(peer: Peer) -> None:
        await peer.receive_kind(wire.HELLO)
        await peer.send(wire.frame(wire.HELLO, 0, wire.encode(greeting)))
        await peer.ignore()

    with pytest.raises(WireError, match="broke the protocol"):
        async with scripted(runtime):
            pass


async def test_a_runtime_that_hangs_up_at_once_is_gone() -> None:
    async def runtime(peer: Peer) -> None:
        return

    with pytest.raises(SandboxGone, match="killed for memory"):
        async with scripted(runtime):
            pass


FRAMES = st.lists(
    st.one_of(
        st.binary(max_size=60),
        st.builds(
            wire.frame,
            st.sampled_from(sorted(wire.FROM_RUNTIME)),
            st.integers(0, 3),
            st.one_of(
                st.binary(max_size=20),
                st.builds(wire.encode, st.sampled_from([RESULT, GREETING, True, [], {}, {"left": 0}, {"refused": []}])),
            ),
        ),
    ),
    max_size=8,
)
CALLS: list[Callable[[Sandbox], Coroutine[Any, Any, object]]] = [
    lambda sandbox: sandbox.exec("true"),
    lambda sandbox: sandbox.read_file("/f"),
    lambda sandbox: sandbox.tree("/"),
    lambda sandbox: sandbox.download("/d", "/nonexistent/never/written"),
    lambda sandbox: sandbox.kill_all(),
    lambda sandbox: sandbox.write_file("/f", b"x" * 3_000_000),
]


@given(FRAMES, st.sampled_from(CALLS), st.sampled_from(["asyncio", "trio"]), st.sampled_from([0.0, 5.0]))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_a_runtime_sends_a_call_ends_in_a_result_or_a_typed_error(
    frames: list[bytes], call: Callable[[Sandbox], Coroutine[Any, Any, object]], backend: str, reconnect_s: float
) -> None:
    async def runtime(peer: Peer) -> None:
        await peer.greet()
        await peer.receive_kind(wire.CALL)
        await peer.send(*frames)

    async def go() -> None:
        async with scripted(runtime, reconnect_s=reconnect_s) as sandbox:
            with anyio.fail_after(60):
                try:
                    result = await call(sandbox)
                except (AgentixError, OSError):
                    return
                assert not isinstance(result, ExecResult) or isinstance(result.exit_code, int)

    anyio.run(go, backend=backend)


async def test_many_small_pieces_that_wait_cost_no_more_than_their_bytes() -> None:
    async def runtime(peer: Peer) -> None:
        await peer.greet()
        number, _ = await peer.receive_kind(wire.CALL)
        await peer.send(*[wire.data(number, wire.STDOUT, b"x") for _ in range(20_000)])
        await peer.send(wire.frame(wire.RESULT, number, wire.encode({**RESULT, "written": [20_000, 0]})))
        await peer.ignore()

    async with scripted(runtime) as sandbox, sandbox.stream("true") as running:
        while not running._call.over:  # noqa: ASYNC110
            await anyio.sleep(0.001)
        assert len(running._call._inbox) <= 2
        assert (await running.wait()).stdout == b"x" * 20_000


async def test_a_claim_that_a_process_could_not_be_killed_is_an_error() -> None:
    async def runtime(peer: Peer) -> None:
        await peer.greet()
        number, _ = await peer.receive_kind(wire.CALL)
        await peer.send(wire.frame(wire.RESULT, number, wire.encode({"killed": 0, "left": 3})))
        await peer.ignore()

    async with scripted(runtime) as sandbox:
        with pytest.raises(HostError, match="3 processes"):
            await sandbox.kill_all()


async def test_a_listing_cannot_name_what_is_outside() -> None:
    for record in (
        [b"../x", "file", False, 0, "0" * 40],
        [b"/x", "file", False, 0, "0" * 40],
        [b"x", "file", False, 0, "z"],
    ):
        raw = wire.encode([record])

        async def runtime(peer: Peer, raw: bytes = raw) -> None:
            await peer.greet()
            number, _ = await peer.receive_kind(wire.CALL)
            await peer.send(wire.data(number, wire.PLAIN, len(raw).to_bytes(4, "big") + raw))
            await peer.ignore()

        async with scripted(runtime) as sandbox:
            with pytest.raises(WireError, match="listing"):
                await sandbox.tree("/")
