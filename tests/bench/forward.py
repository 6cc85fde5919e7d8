"""Bytes and round trips through a port of a sandbox that leads to the host, against the same on the host's loopback."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading

import anyio
from anyio.abc import ByteStream
from table import Row, show

from agentix.api import BaseProvider, SandboxConfig
from agentix.providers.local import LocalProvider

SIZE = 256 << 20
TRIPS = 2000
ROUNDS = 3

CLIENT = """
import socket, sys, threading, time
size, trips = int(sys.argv[2]), int(sys.argv[3])
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
times = []
for _ in range(trips):
    began = time.perf_counter(); peer.sendall(b"x"); peer.recv(1)
    times.append(time.perf_counter() - began)
times.sort()
piece = bytes(1 << 18)
def write():
    for _ in range(size // len(piece)): peer.sendall(piece)
    peer.shutdown(socket.SHUT_WR)
began = time.perf_counter()
writer = threading.Thread(target=write); writer.start()
got = 0
while data := peer.recv(1 << 18): got += len(data)
seconds = time.perf_counter() - began
assert got == size
print(size / seconds / 2**20, times[trips // 2] * 1000)
"""


async def echo(stream: ByteStream) -> None:
    """Send everything back."""
    try:
        while True:
            await stream.send(await stream.receive(1 << 18))
    except anyio.EndOfStream:
        return


def bare() -> tuple[float, float]:
    """An echo between two processes of the host, without agentix."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while data := peer.recv(1 << 18):
                    peer.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        arguments = [str(server.getsockname()[1]), str(SIZE), str(TRIPS)]
        done = subprocess.run(
            [sys.executable, "-I", "-c", CLIENT, *arguments], check=True, capture_output=True, text=True
        )
        thread.join()
    rate, trip = done.stdout.split()
    return float(rate), float(trip)


async def forwarded(provider: BaseProvider, config: SandboxConfig, python: list[str]) -> tuple[float, float]:
    """The same from inside a sandbox without network."""
    async with provider.session(config) as sandbox, sandbox.forward(echo) as address:
        arguments = [str(address.port), str(SIZE), str(TRIPS)]
        result = await sandbox.exec([*python, "-I", "-c", CLIENT, *arguments], timeout_s=120)
        assert result.ok, result.error_text
        rate, trip = result.text.split()
        return float(rate), float(trip)


def rows() -> list[Row]:
    """The rows of this benchmark."""
    return anyio.run(_rows)


async def _rows() -> list[Row]:
    theirs, ours = [], []
    async with LocalProvider() as provider:
        for _ in range(ROUNDS):
            theirs.append(await anyio.to_thread.run_sync(bare))
            ours.append(await forwarded(provider, SandboxConfig(), ["python3"]))
    return [
        Row(
            name=f"{SIZE >> 20} MiB there and back, local",
            ours=max(rate for rate, _ in ours),
            unit="MiB/s",
            target=100,
            bare=max(rate for rate, _ in theirs),
        ),
        Row(
            name="one byte there and back, local, p50",
            ours=min(trip for _, trip in ours),
            unit="ms",
            target=2,
            better="less",
            bare=min(trip for _, trip in theirs),
        ),
    ]


if __name__ == "__main__":
    show(rows())
