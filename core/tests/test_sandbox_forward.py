from __future__ import annotations

import hashlib
import logging
import re
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream, SocketAttribute

from agentix.errors import WireError
from agentix.runtime import wire
from agentix.runtime.forward import EVENTS
from agentix.sandbox import ForwardAddress, Sandbox
from agentix.sandbox.forward_stream import ForwardedStream

pytestmark = pytest.mark.anyio

RESET = "ConnectionResetError|BrokenPipeError|not connected"
PYTHON = [sys.executable, "-I", "-c"]
ASK = """
import socket, sys
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
peer.sendall(sys.argv[2].encode())
peer.shutdown(socket.SHUT_WR)
while piece := peer.recv(65536):
    sys.stdout.buffer.write(piece)
"""


async def echo(stream: ByteStream) -> None:
    async for piece in stream:
        await stream.send(piece)


async def upper_at_end(stream: ByteStream) -> None:
    """Answers only once the other side has said all, which takes a half-close."""
    whole = b"".join([piece async for piece in stream])
    await stream.send(whole.upper())


async def ask(sandbox: Sandbox, address: ForwardAddress, text: str) -> bytes:
    result = await sandbox.exec([*PYTHON, ASK, str(address.port), text], timeout_s=30)
    assert result.ok, result.error_text
    return result.stdout


@pytest.fixture
async def service(anyio_backend: str) -> AsyncIterator[int]:
    """A real TCP server on the host that answers at the end of what it is told."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:

        async def serve(stream: ByteStream) -> None:
            async with stream:
                await upper_at_end(stream)

        group.start_soon(listener.serve, serve)
        yield listener.extra(SocketAttribute.local_port)
        group.cancel_scope.cancel()


async def test_a_handler_talks_with_whoever_connects(sandbox: Sandbox) -> None:
    async with sandbox.forward(echo) as address:
        assert (address.host, str(address), address.url) == (
            "127.0.0.1",
            f"127.0.0.1:{address.port}",
            f"http://127.0.0.1:{address.port}",
        )
        assert await ask(sandbox, address, "hello") == b"hello"
        assert await ask(sandbox, address, "again") == b"again"


async def test_half_closing_leaves_the_other_direction_open(sandbox: Sandbox, service: int) -> None:
    for target in (upper_at_end, service, ("127.0.0.1", service), ("localhost", service)):
        async with sandbox.forward(target) as address:
            assert await ask(sandbox, address, "all of it") == b"ALL OF IT"


async def test_a_host_that_ends_first_still_hears_the_rest(sandbox: Sandbox) -> None:
    heard: list[bytes] = []

    async def handler(stream: ByteStream) -> None:
        await stream.send(b"go")
        await stream.send_eof()
        heard.append(b"".join([piece async for piece in stream]))

    late = """
import socket, sys
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
while peer.recv(100): pass
peer.sendall(b"after the end")
"""
    async with sandbox.forward(handler) as address:
        assert (await sandbox.exec([*PYTHON, late, str(address.port)], timeout_s=30)).ok
        with anyio.fail_after(60):
            while not heard:
                await anyio.lowlevel.checkpoint()
    assert heard == [b"after the end"]


async def test_a_unix_socket_of_the_host_is_reached(sandbox: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "service"
    async with await anyio.create_unix_listener(path) as listener, anyio.create_task_group() as group:

        async def serve(stream: ByteStream) -> None:
            async with stream:
                await upper_at_end(stream)

        group.start_soon(listener.serve, serve)
        for target in (path, str(path)):
            async with sandbox.forward(target) as address:
                assert await ask(sandbox, address, "unix") == b"UNIX"
        group.cancel_scope.cancel()


async def test_every_byte_arrives_in_both_directions_at_once(sandbox: Sandbox) -> None:
    both = """
import hashlib, os, socket, sys, threading
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
size = 24 << 20
piece = bytes(range(256)) * 256
def write():
    for _ in range(size // len(piece)): peer.sendall(piece)
    peer.shutdown(socket.SHUT_WR)
thread = threading.Thread(target=write); thread.start()
got = hashlib.sha256(); count = 0
while data := peer.recv(1 << 18):
    got.update(data); count += len(data)
thread.join()
print(count, got.hexdigest())
"""
    async with sandbox.forward(echo) as address:
        result = await sandbox.exec([*PYTHON, both, str(address.port)], timeout_s=60)
    expected = hashlib.sha256(bytes(range(256)) * 256 * 384).hexdigest()
    assert result.text.split() == [str(24 << 20), expected], result.error_text


async def test_hundreds_of_connections_at_once_each_get_their_own_answer(sandbox: Sandbox) -> None:
    many = """
import socket, sys
port, count = int(sys.argv[1]), int(sys.argv[2])
peers = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
for number, peer in enumerate(peers): peer.sendall(b"%d" % number); peer.shutdown(socket.SHUT_WR)
for number, peer in reversed(list(enumerate(peers))):
    assert b"".join(iter(lambda: peer.recv(100), b"")) == b"%d" % number
"""
    async with sandbox.forward(echo, max_connections=300) as address:
        result = await sandbox.exec([*PYTHON, many, str(address.port), "300"], timeout_s=60)
    assert result.ok, result.error_text


async def test_a_sandbox_cannot_have_more_connections_than_allowed(sandbox: Sandbox) -> None:
    now = most = 0

    async def handler(stream: ByteStream) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        try:
            await echo(stream)
        finally:
            now -= 1

    greedy = """
import socket, sys
peers = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(40)]
for peer in peers: peer.sendall(b"x")
for peer in peers:
    assert peer.recv(1) == b"x"
    peer.close()
"""
    async with sandbox.forward(handler, max_connections=3) as address:
        result = await sandbox.exec([*PYTHON, greedy, str(address.port)], timeout_s=60)
    assert result.ok, result.error_text
    assert most == 3


async def test_a_big_transfer_does_not_starve_a_small_call(sandbox: Sandbox) -> None:
    flood = """
import socket, sys
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
piece = bytes(1 << 20)
while True: peer.sendall(piece)
"""
    count = 0

    async def sink(stream: ByteStream) -> None:
        nonlocal count
        async for piece in stream:
            count += len(piece)

    async with sandbox.forward(sink) as address, sandbox.stream([*PYTHON, flood, str(address.port)]):
        while not count:
            await anyio.lowlevel.checkpoint()
        before = count
        with anyio.fail_after(60):
            for _ in range(20):
                assert (await sandbox.exec("echo small")).stdout == b"small\n"
        assert count > before


async def test_a_handler_that_reads_nothing_holds_the_sender_back_and_nobody_else(sandbox: Sandbox) -> None:
    fill = """
import socket, sys
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
peer.settimeout(0.5)
sent = 0
try:
    while True: sent += peer.send(bytes(1 << 16))
except TimeoutError: print(sent)
"""

    async def deaf(stream: ByteStream) -> None:
        await anyio.sleep_forever()

    async with sandbox.forward(deaf) as stuck, sandbox.forward(echo) as other:
        result = await sandbox.exec([*PYTHON, fill, str(stuck.port)], timeout_s=30)
        assert 0 < int(result.text) < 32 << 20
        assert await ask(sandbox, other, "free") == b"free"


async def test_leaving_ends_the_listener_and_its_connections(sandbox: Sandbox) -> None:
    wait = """
import socket, sys
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
peer.sendall(b"x")
print(peer.recv(1), flush=True)
try: print(peer.recv(1))
except ConnectionResetError: print("reset")
try: socket.create_connection(("127.0.0.1", int(sys.argv[1])))
except ConnectionRefusedError: print("refused")
"""
    async with sandbox.stream("read port; exec " + sys.executable + " -I -c '" + wait + "' $port") as running:
        async with sandbox.forward(echo) as address:
            await running.send(b"%d\n" % address.port)
            assert (await anext(running)).data == b"b'x'\n"
        assert (await running.wait()).text.split() == ["b'x'", "reset", "refused"]
    async with sandbox.forward(echo, port=address.port) as same:
        assert same == address


async def test_an_error_in_the_body_comes_out_as_it_is(sandbox: Sandbox) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with sandbox.forward(echo):
            raise KeyError("mine")


async def test_a_port_that_is_taken_is_an_error(sandbox: Sandbox) -> None:
    async with sandbox.forward(echo) as address:
        with pytest.raises(OSError, match="in use"):
            async with sandbox.forward(echo, port=address.port):
                pass
        assert await ask(sandbox, address, "still") == b"still"


async def test_a_target_that_refuses_resets_the_connection_and_keeps_the_port(
    sandbox: Sandbox,
) -> None:
    # Bound and not listening: it refuses, and nobody else is given its port meanwhile.
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        await refused(sandbox, closed.getsockname()[1])


async def refused(sandbox: Sandbox, port: int) -> None:
    async with sandbox.forward(port) as address:
        for _ in range(12):
            result = await sandbox.exec([*PYTHON, ASK, str(address.port), "x"], timeout_s=30)
            assert result.exit_code == 1
            assert re.search(RESET, result.error_text)


async def test_a_handler_that_fails_resets_its_connection_and_no_other(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(stream: ByteStream) -> None:
        if await stream.receive() == b"bad":
            raise ZeroDivisionError("a mistake")
        await stream.send(b"fine")

    async with sandbox.forward(handler) as address:
        result = await sandbox.exec([*PYTHON, ASK, str(address.port), "bad"], timeout_s=30)
        assert re.search(RESET, result.error_text)
        assert await ask(sandbox, address, "good") == b"fine"
    assert [record.levelno for record in caplog.records if "a mistake" in record.message] == [logging.WARNING]


@pytest.mark.parametrize("target", [0, 65536, -1, ("127.0.0.1", 0), 1.5, None, True])
async def test_what_is_no_target_is_refused(sandbox: Sandbox, target: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        sandbox.forward(target)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_connections"):
        sandbox.forward(80, max_connections=0)


async def test_a_sandbox_that_is_lost_ends_connections_and_not_the_body(sandbox: Sandbox) -> None:
    connected, ended = anyio.Event(), anyio.Event()

    async def handler(stream: ByteStream) -> None:
        connected.set()
        try:
            await stream.receive()
        except anyio.BrokenResourceError:
            ended.set()
            raise

    knock = "import socket, time; s = socket.create_connection(('127.0.0.1', {})); time.sleep(60)"
    with anyio.fail_after(60):
        async with sandbox.forward(handler) as address:
            await sandbox.exec(f'{sys.executable} -I -c "{knock.format(address.port)}" > /dev/null 2>&1 &')
            await connected.wait()
            await sandbox.aclose()
            await ended.wait()


class ForgedCall:
    """A call whose runtime sends what no honest one would."""

    over = False

    def __init__(self, *received: tuple[int, bytes]) -> None:
        self._received = list(received)

    async def receive(self) -> tuple[int, bytes] | None:
        return self._received.pop(0) if self._received else None

    async def result(self) -> object:
        return {"reset": "perhaps"}

    def end_input(self) -> None:
        pass


@pytest.mark.parametrize("forged", [(EVENTS, b"o"), (EVENTS, b"\0"), (7, b"x"), (wire.STDERR, b"x")])
async def test_forged_events_are_never_taken_for_data(forged: tuple[int, bytes]) -> None:
    stream = ForwardedStream(ForgedCall(forged), events=b"")  # type: ignore[arg-type]
    with pytest.raises(WireError):
        await stream.receive()


async def test_data_after_the_end_is_no_data(anyio_backend: str) -> None:
    stream = ForwardedStream(ForgedCall((EVENTS, b"e"), (wire.PLAIN, b"more")), events=b"")  # type: ignore[arg-type]
    with pytest.raises(anyio.EndOfStream):
        await stream.receive()
    with pytest.raises(anyio.EndOfStream):
        await stream.receive()
    with pytest.raises(WireError):
        await stream.finish()
    broken = ForwardedStream(ForgedCall(), events=b"")  # type: ignore[arg-type]
    with pytest.raises(anyio.BrokenResourceError):
        await broken.receive()
