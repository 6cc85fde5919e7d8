"""What a forked child of the worker does: one function, one answer."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
import threading

from agentix.runtime import answer, memory, plain, processes, reporting, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable
    from typing import Any, NoReturn

    from agentix.runtime.invocation import Invocation
    from agentix.runtime.worker import Worker


def run(worker: Worker, call: Invocation, raw: socket.socket, function: Callable[[], Any]) -> NoReturn:
    """Call the function and answer; never returns.

    Args:
        worker: As it was when this process was forked.
        call: Which call it is.
        raw: The socket to the worker.
        function: With its arguments.
    """
    try:
        _settle(worker)
        sender = _Sender(raw, call.id)
        worker.records.send = sender.send
        try:
            told = _answer(function(), call, sender)
        except BaseException as error:
            told = reporting.raised(error)
        worker.flush_output()
        sender.send(wire.frame(wire.RESULT, call.id, told))
    finally:
        # Nothing of the worker's is this process's to tidy up.
        os._exit(0)


def _settle(worker: Worker) -> None:
    """Become a process of its own: no part of the worker's loop, and gone when the worker is."""
    processes.prctl(processes.PR_SET_PDEATHSIG, processes.SIGKILL)
    if os.getppid() != worker.pid:
        os._exit(0)
    processes.prctl(processes.PR_SET_CHILD_SUBREAPER, 1)
    os.setsid()
    gc.freeze()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asyncio._set_running_loop(None)
    worker.forget()
    memory.volunteer()


class _Sender:
    def __init__(self, raw: socket.socket, id: int) -> None:
        raw.setblocking(True)
        self._raw = raw
        self._id = id
        self._lock = threading.Lock()

    def send(self, frame: bytes) -> None:
        with self._lock:
            self._raw.sendall(frame)

    def data(self, encoded: bytes | bytearray) -> None:
        view = memoryview(encoded)
        for at in range(0, len(view), wire.CHUNK):
            self.send(wire.data(self._id, wire.PLAIN, view[at : at + wire.CHUNK]))


def _answer(value: Any, call: Invocation, sender: _Sender) -> bytes:
    try:
        if call.iterate:
            if hasattr(value, "__aiter__"):
                asyncio.run(_send_all(value, call, sender))
                return answer.SENT
            for item in value:
                _send_item(item, call, sender)
            return answer.SENT
        if inspect.isawaitable(value):
            value = asyncio.run(_awaited(value))
        encoded = plain.parts(value, limit=call.limit)
    except (plain.CannotLower, plain.TooLarge) as error:
        return reporting.refused(error)
    if len(encoded) == 1 and len(encoded[0]) <= answer.INLINE:
        return answer.VALUE + encoded[0]
    for part in encoded:
        sender.data(part)
    return answer.SENT


async def _awaited(value: Any) -> Any:
    return await value


async def _send_all(items: AsyncIterator[Any], call: Invocation, sender: _Sender) -> None:
    async for item in items:
        _send_item(item, call, sender)


def _send_item(item: Any, call: Invocation, sender: _Sender) -> None:
    encoded = plain.encode(item, limit=call.limit)
    sender.data(len(encoded).to_bytes(4, "big") + encoded)
