"""Functions that block run in forked children of the worker, so many at a time; ending one ends nothing else."""

from __future__ import annotations

# Loaded once here rather than in every child, which needs it for prctl.
import _ctypes  # noqa: F401
import asyncio
import os
import socket
import warnings

from agentix.runtime import answer, memory, processes, wire
from agentix.runtime.child import run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from agentix.runtime.invocation import Invocation
    from agentix.runtime.worker import Worker

MOST = 16
"""How many children run at a time; further calls wait for their turn."""
GRACE_S = 1.0
"""Between SIGTERM and SIGKILL, for what a function started."""

_RECEIVE = 1 << 17
_SWEEP_S = 0.003
_FROM_CHILD = frozenset({wire.DATA, wire.RESULT})


class Children:
    """The children of a worker.

    Args:
        worker: Theirs.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._room = asyncio.Semaphore(MOST)
        self._kills = 0
        self._running = 0

    async def call(
        self, call: Invocation, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Run a function in a child and pass on what it answers; being cancelled ends the child first."""
        async with self._room:
            if not self._running:
                # What was killed for memory before is none of these.
                self._kills = memory.oom_kills()
            self._running += 1
            try:
                await self._run(call, _fork(self._worker, call, function, args, kwargs))
            finally:
                self._running -= 1

    async def _run(self, call: Invocation, child: Child) -> None:
        told = b""
        try:
            told = await self._listen(call, child)
            if told:
                call.finish(told)
            await child.exited.wait()
        finally:
            if not child.exited.is_set():
                await child.kill()
            child.raw.close()
        if not told:
            call.finish(answer.EXITED + wire.encode(self._ending(child)))

    async def _listen(self, call: Invocation, child: Child) -> bytes:
        """Pass on what it sends, until it answers or ends."""
        loop = asyncio.get_running_loop()
        reader = wire.FrameReader(_FROM_CHILD, max_value=2 * answer.INLINE + (1 << 20))
        while received := await loop.sock_recv(child.raw, _RECEIVE):
            try:
                for kind, number, payload in reader.feed(received):
                    if kind == wire.RESULT and payload:
                        return payload
                    if number == self._worker.id:
                        self._worker.send(wire.frame(wire.DATA, number, payload))
                    elif 2 <= len(payload) <= wire.CHUNK + 1 and payload[0] == wire.PLAIN:
                        await call.relay(memoryview(payload)[1:])
                    else:
                        raise wire.Malformed("a piece of a result is none")
            except wire.Malformed:
                # It cannot be listened to any more; that is its end.
                await child.kill()
                break
        return b""

    def _ending(self, child: Child) -> dict[str, Any]:
        kills, before = memory.oom_kills(), self._kills
        self._kills = kills
        killed = child.status & 0x7F == processes.SIGKILL
        return {"status": child.status, "oom": killed and kills > before, "why": ""}


class Child:
    """A forked child.

    Args:
        pid: Of it.
        raw: The socket to it.
    """

    def __init__(self, pid: int, raw: socket.socket) -> None:
        self.pid = pid
        self.raw = raw
        self.status = 0
        self.exited = asyncio.Event()
        self._fd = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._fd, self._reap)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)
        try:
            _, self.status = os.waitpid(self.pid, 0)
        except ChildProcessError:
            # A function on the loop has waited for any child; how this one ended is lost with that.
            self.status = -1
        self.exited.set()
        # What it left running may hold the other end; what it sent can still be read.
        self.raw.shutdown(socket.SHUT_RD)

    async def kill(self) -> None:
        """End it and everything below it."""
        # A stopped process still adopts what its descendants leave behind, so that all of it is found.
        processes.send([self.pid], processes.SIGSTOP)
        processes.terminate(processes.living(self.pid))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + GRACE_S
        while processes.living(self.pid) and loop.time() < deadline:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(_SWEEP_S)
        deadline = loop.time() + GRACE_S
        doubts = 0
        while loop.time() < deadline:
            killed, doubtful = processes.kill_or_doubt(self.pid)
            doubts += doubtful
            if not killed and (not doubtful or doubts > processes.DOUBTS):
                break
            await asyncio.sleep(_SWEEP_S)
        processes.send([self.pid], processes.SIGKILL)
        await self.exited.wait()


def _fork(
    worker: Worker, call: Invocation, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Child:
    worker.flush_output()
    ours, theirs = socket.socketpair()
    try:
        with warnings.catch_warnings():
            # A function may have started threads; the child needs none of them.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            run(worker, call, theirs, lambda: function(*args, **kwargs))
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    ours.setblocking(False)
    return Child(pid, ours)
