"""The Python worker: one process in a sandbox that calls the functions which the host names.

Async functions run on its loop; each other function in a forked child, so that ending one ends nothing else. It
speaks to the server on a socket, its stdin until it starts, with the frames of `wire`.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import socket
import sys
import threading

from agentix.runtime import answer, spawning, wire
from agentix.runtime.children import Children
from agentix.runtime.invocation import Invocation
from agentix.runtime.loading import prepare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_RECEIVE = 1 << 18
_LONGEST_RECORD = 8192
_HIGH = 1 << 20
"""With so many bytes waiting to be sent, nobody writes more of a result."""


class Worker:
    """The calls under way, and the socket to the server.

    Args:
        raw: The socket.
        id: The call that stands for this worker.
        reader: What has begun to read it.
    """

    def __init__(self, raw: socket.socket, id: int, reader: wire.FrameReader) -> None:
        self.id = id
        self.pid = os.getpid()
        self.calls: dict[int, Invocation] = {}
        self.records = Records(id, self.log)
        self.children = Children(self)
        self.closed = asyncio.Event()
        self._raw = raw
        self._reader = reader
        self._out = bytearray()
        self._waiting: list[asyncio.Future[None]] = []
        self._writing = False
        self._scheduled = False
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._loop.add_reader(raw.fileno(), self._readable)

    def forget(self) -> None:
        """Let go of the socket, in a child that must not hold it."""
        self._raw.close()

    def flush_output(self) -> None:
        """Let nothing printed stay behind."""
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                # Whatever a function put there, or closed.
                continue

    def take(self, frames: list[tuple[int, int, bytes]]) -> None:
        """Do what the host asks."""
        for kind, number, payload in frames:
            if kind == wire.CALL:
                self.calls[number] = Invocation(self, number, wire.decode(payload))
                self.calls[number].begin()
            elif (call := self.calls.get(number)) is None:
                continue
            elif kind == wire.DATA:
                call.receive(payload[1:])
            elif kind == wire.END:
                call.end_input()
            elif kind == wire.CREDIT:
                call.add_credit(int.from_bytes(payload, "big"))
            elif kind == wire.CANCEL:
                call.cancel()

    def send(self, frame: bytes | memoryview) -> None:
        """Send a frame; many at once are one write."""
        self._out += frame
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def send_data(self, number: int, piece: memoryview) -> None:
        """Send a piece of a result, without putting it together first."""
        self._out += wire.head(wire.DATA, number, len(piece) + 1)
        self._out.append(wire.PLAIN)
        self.send(piece)

    async def room(self) -> None:
        """Wait until what was sent is under way."""
        while len(self._out) >= _HIGH:
            waiter = self._loop.create_future()
            self._waiting.append(waiter)
            await waiter

    def finish(self, number: int, told: bytes) -> None:
        """Answer a call."""
        if self.calls.pop(number, None) is not None:
            self.flush_output()
            self.send(wire.frame(wire.RESULT, number, told))

    def log(self, frame: bytes) -> None:
        """Send a log record, from any thread."""
        if threading.get_ident() == self._thread:
            self.send(frame)
        else:
            self._loop.call_soon_threadsafe(self.send, frame)

    def _readable(self) -> None:
        try:
            received = self._raw.recv(_RECEIVE)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if received:
            self.take(self._reader.feed(received))
        else:
            self.closed.set()

    def _flush(self) -> None:
        self._scheduled = False
        while self._out:
            try:
                with memoryview(self._out) as view:
                    sent = self._raw.send(view[:_RECEIVE])
            except BlockingIOError:
                break
            except OSError:
                self.closed.set()
                return
            del self._out[:sent]
        wanted = bool(self._out)
        if wanted != self._writing:
            self._writing = wanted
            if wanted:
                self._loop.add_writer(self._raw.fileno(), self._flush)
            else:
                self._loop.remove_writer(self._raw.fileno())
        if len(self._out) < _HIGH:
            waiting, self._waiting = self._waiting, []
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_result(None)


class Records(logging.Handler):
    """Hands log records over to the host.

    Args:
        id: The call that stands for the worker.
        send: Takes a frame.
    """

    def __init__(self, id: int, send: Callable[[bytes], None]) -> None:
        super().__init__()
        self._id = id
        self.send = send

    def emit(self, record: logging.LogRecord) -> None:
        """Send one."""
        try:
            text = self.format(record)
            if len(text) > _LONGEST_RECORD:
                text = text[:_LONGEST_RECORD] + " …"
            raw = text.encode("utf-8", "backslashreplace").decode()
            value = wire.encode([record.levelno, record.name[:200], raw])
            self.send(wire.data(self._id, answer.LOG, len(value).to_bytes(4, "big") + value))
        except Exception:
            self.handleError(record)


def _hello(raw: socket.socket) -> tuple[int, dict[str, Any], wire.FrameReader, list[tuple[int, int, bytes]]]:
    reader = wire.FrameReader(wire.FROM_HOST)
    while not (frames := reader.feed(raw.recv(_RECEIVE))):
        pass
    _, number, payload = frames[0]
    return number, wire.decode(payload), reader, frames[1:]


async def _serve(raw: socket.socket) -> None:
    number, settings, reader, frames = _hello(raw)
    raw.setblocking(False)
    worker = Worker(raw, number, reader)
    logging.getLogger().addHandler(worker.records)
    prepare(settings)
    worker.take(frames)
    await worker.closed.wait()


def main() -> None:
    """Serve until the server hangs up."""
    raw = socket.socket(fileno=fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3))
    nothing = spawning.open_nothing()
    os.dup2(nothing, 0)
    os.close(nothing)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
    try:
        asyncio.run(_serve(raw))
    finally:
        # Threads that a function left running would keep the process.
        os._exit(0)
