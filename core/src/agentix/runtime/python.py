"""The server's side of the Python worker: it starts it, carries frames between it and the host, and sees it end.

The worker runs code that nobody vouches for, so whatever it sends is checked here: a worker that breaks the protocol
is ended, and the connection to the host stays what it is.
"""

from __future__ import annotations

import _socket
import os
import select

from agentix.runtime import answer, memory, users, wire
from agentix.runtime.call import Call
from agentix.runtime.execution import environment, specification
from agentix.runtime.interpreter import worker_command
from agentix.runtime.logpipe import LogPipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agentix.runtime.server import Server

FROM_WORKER = frozenset({wire.DATA, wire.CREDIT, wire.RESULT})
CANCEL_S = 5.0
"""How long a cancelled call may take to end before its whole worker is ended."""

_RECEIVE = 1 << 18
_SIGKILL = 9


class Worker(Call):
    """The call that stands for the worker: it lasts as long as the process, and carries what that logs and prints.

    Args:
        server: The server it came to.
        id: The host's number for it.
        arguments: `cwd`, `env`, `user`, `library`; all of it goes to the worker as well.
    """

    def __init__(self, server: Server, id: int, arguments: dict[str, Any]) -> None:
        super().__init__(server, id)
        self.invocations: dict[int, Invocation] = {}
        self._reader = wire.FrameReader(FROM_WORKER, max_value=2 * answer.INLINE + (1 << 20))
        self.queued = 0
        """Bytes that were ever meant for the worker."""
        self._sent = 0
        self._out = bytearray()
        self._flushing = False
        self._writing = False
        self._paused = False
        self._ended = False
        self._over = False
        self._why = ""
        self._dropped = 0
        self.count_kills()
        chosen = arguments["user"] if arguments["user"] is not None else server.settings["user"]
        user = users.resolve(chosen if chosen is not None else server.settings["base_user"])
        env = environment(server.settings, arguments, user, chosen=chosen is not None)
        argv = worker_command(arguments["library"], env)
        spec = specification(user, argv, argv[:1], env=env, cwd=arguments["cwd"], pty=False, stdin=True)
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        opened: list[int] = []
        try:
            opened += os.pipe2(os.O_CLOEXEC)
            opened += os.pipe2(os.O_CLOEXEC)
            if spec["switch"]:
                for fd in opened:
                    os.fchown(fd, user.uid, user.gid)
            # The supervisor sees a command like any other; what it needs of one is `ended`.
            descriptors = [theirs.fileno(), opened[1], opened[3]]
            self._supervisor = server.commands.start(self, spec, descriptors, lasting=True)  # type: ignore[arg-type]
        except BaseException:
            ours.close()
            for fd in opened:
                os.close(fd)
            raise
        finally:
            theirs.close()
        os.close(opened[1])
        os.close(opened[3])
        self._pipes = (LogPipe(self, opened[0], wire.STDOUT), LogPipe(self, opened[2], wire.STDERR))
        ours.setblocking(False)
        self._socket = ours
        server.watch(ours.fileno(), select.EPOLLIN, self._ready)
        server.worker = self
        self.forward(wire.HELLO, id, wire.encode(arguments))

    def forward(self, kind: int, number: int, payload: bytes = b"") -> None:
        """Send a frame to the worker."""
        if self._ended:
            return
        self._out += wire.head(kind, number, len(payload))
        self._out += payload
        self.queued += wire.HEAD_BYTES + len(payload)
        if not self._flushing:
            self._flushing = True
            self.server.soon(self._flush)

    def count_kills(self) -> None:
        """Take note of what was killed for memory until now, which is not what ends this process."""
        self._kills = memory.oom_kills()

    def log(self, channel: int, piece: bytes) -> None:
        """Send on what it says, unless the host has more than enough of it."""
        if self.id not in self.server.calls:
            return
        if self.credit <= 0 or self.server.congested:
            self._dropped += len(piece)
            return
        if self._dropped:
            note = wire.encode([30, "agentix.runtime", f"{self._dropped} bytes of logs and output were dropped"])
            self._dropped = 0
            self.send(answer.LOG, len(note).to_bytes(4, "big") + note)
        self.send(channel, piece)

    def cancel(self) -> None:
        """End the worker and everything that it started."""
        self.kill("the host ended it")

    def kill(self, why: str) -> None:
        """End the worker; every call in it ends with the reason."""
        if not self._ended:
            self._why = self._why or why
            self._supervisor.kill(0.0)

    def ended(self, ended: dict[str, Any]) -> None:
        """The process has ended: what it had sent counts, and every other call in it is over."""
        if self._ended:
            return
        while not self._over and self._receive():
            pass
        self._ended = True
        self.server.unwatch(self._socket.fileno())
        self._socket.close()
        if self.server.worker is self:
            self.server.worker = None
        error = ended["error"]
        if error:
            self._why = f"the interpreter could not be started: {os.strerror(error['errno'] or 5)}"
        killed = ended["status"] & 0x7F == _SIGKILL and not self._why
        exited = {
            "status": ended["status"],
            "oom": killed and memory.oom_kills() > self._kills,
            "why": self._why,
        }
        told = answer.EXITED + wire.encode(exited)
        for invocation in list(self.invocations.values()):
            # One of which nothing had left yet can be made again elsewhere.
            invocation.finish(told if invocation.place < self._sent else answer.ABSENT)
        for pipe in self._pipes:
            pipe.drain()
        self.finish(told)

    def step(self) -> None:
        """Go on reading, now that the host takes what is sent."""
        if self._paused and not self._ended:
            self._paused = False
            self._arm()

    def _ready(self, events: int) -> None:
        if events & select.EPOLLOUT:
            self._flush()
        if events & ~select.EPOLLOUT and not self._ended:
            if self.server.congested:
                self._paused = True
                self._arm()
                self.server.wake(self)
            else:
                self._receive()

    def _receive(self) -> bool:
        """Read once; whether there may be more."""
        try:
            received = self._socket.recv(_RECEIVE)
        except BlockingIOError:
            return False
        except OSError:
            received = b""
        if not received:
            # Its end is reported by the supervisor, with the reason; only one that lives on without it is ended.
            self._hang_up()
            self.server.later(CANCEL_S, lambda: self.kill("it hung up"))
            return False
        # What was printed before an answer arrives before it.
        for pipe in self._pipes:
            pipe.drain()
        try:
            for kind, number, payload in self._reader.feed(received):
                self._dispatch(kind, number, payload)
        except wire.Malformed as error:
            self.kill(f"it broke the protocol: {error}")
            self._hang_up()
            return False
        return True

    def _dispatch(self, kind: int, number: int, payload: bytes) -> None:
        if number == self.id:
            if kind != wire.DATA or len(payload) < 6 or payload[0] != answer.LOG:
                raise wire.Malformed("it sent in its own name what is no log")
            # A record whose length is wrong would make records of all that follow unreadable.
            if int.from_bytes(payload[1:5], "big") != len(payload) - 5:
                raise wire.Malformed("it sent a log record of a wrong length")
            self.log(answer.LOG, payload[1:])
            return
        invocation = self.invocations.get(number)
        if invocation is None:
            raise wire.Malformed("it answered a call that is not under way")
        if kind == wire.DATA:
            invocation.relay(payload)
        elif kind == wire.CREDIT:
            invocation.taken(int.from_bytes(payload, "big"))
        elif payload:
            if payload.startswith(answer.EXITED):
                self.count_kills()
            invocation.finish(payload)
        else:
            raise wire.Malformed("an answer is empty")

    def _flush(self) -> None:
        self._flushing = False
        while self._out and not self._over and not self._ended:
            try:
                sent = self._socket.send(memoryview(self._out)[:_RECEIVE])
            except BlockingIOError:
                break
            except OSError:
                self._out.clear()
                break
            del self._out[:sent]
            self._sent += sent
        wanted = bool(self._out)
        if wanted != self._writing and not self._ended and not self._over:
            self._writing = wanted
            self._arm()

    def _hang_up(self) -> None:
        self.server.unwatch(self._socket.fileno())
        self._over = True

    def _arm(self) -> None:
        if self._over:
            return
        events = (0 if self._paused else select.EPOLLIN) | (select.EPOLLOUT if self._writing else 0)
        if self._paused and not events:
            # A descriptor that nothing is wanted of still tells of a hang-up, again and again.
            events = select.EPOLLONESHOT
        self.server.rearm(self._socket.fileno(), events)


class Invocation(Call):
    """One Python call, carried to the worker and back.

    Args:
        server: The server it came to.
        id: The host's number for it.
        arguments: What the worker gets, and `worker`: the call that stands for the one that is meant.
    """

    def __init__(self, server: Server, id: int, arguments: dict[str, Any]) -> None:
        super().__init__(server, id)
        worker = server.worker
        self.place = 0
        """Where in what is meant for the worker it begins."""
        self._untaken = 0
        self._timer: list[Any] | None = None
        self._worker = worker if worker is not None and worker.id == arguments["worker"] else None
        if self._worker is None:
            server.wake(self)
            return
        if not self._worker.invocations:
            self._worker.count_kills()
        self._worker.invocations[id] = self
        self.place = self._worker.queued
        self._worker.forward(wire.CALL, id, wire.encode(arguments))

    def step(self) -> None:
        """Say that the worker is gone."""
        if self._worker is None:
            self.finish(answer.ABSENT)

    def received(self, payload: bytes) -> None:
        """Carry arguments to the worker, which says itself when it can take more."""
        if self._worker is None:
            self.consumed(len(payload) - 1)
            return
        self._untaken += len(payload) - 1
        self._worker.forward(wire.DATA, self.id, payload)

    def end_input(self) -> None:
        """The arguments are complete."""
        self._forward(wire.END)

    def add_credit(self, amount: int) -> None:
        """The host can take more of the result."""
        super().add_credit(amount)
        self._forward(wire.CREDIT, amount.to_bytes(4, "big"))

    def cancel(self) -> None:
        """Have the worker end it; one that does not is ended itself."""
        self._forward(wire.CANCEL)
        if self._timer is None and self._worker is not None:
            self._timer = self.server.later(CANCEL_S, self._overdue)

    def _overdue(self) -> None:
        if self._worker is not None:
            self._worker.kill(f"a call in it did not end within {CANCEL_S:g} s of being cancelled")

    def relay(self, payload: bytes) -> None:
        """Carry a piece of the result to the host.

        Raises:
            Malformed: It is none, or more than the host allowed.
        """
        if len(payload) < 2 or payload[0] != wire.PLAIN or len(payload) > wire.CHUNK + 1:
            raise wire.Malformed("a piece of a result is none")
        if self.credit <= 0:
            raise wire.Malformed("it sent more of a result than was allowed")
        self.credit -= len(payload) - 1
        self.server.send(wire.head(wire.DATA, self.id, len(payload)))
        self.server.send(payload)

    def taken(self, amount: int) -> None:
        """Let the host send more of the arguments.

        Raises:
            Malformed: More than it sent was taken.
        """
        if not 0 < amount <= self._untaken:
            raise wire.Malformed("it took more of the arguments than there was")
        self._untaken -= amount
        self.server.send(wire.credit(self.id, amount))

    def finish(self, value: Any) -> None:
        """End the call."""
        if self._timer is not None:
            self.server.forget(self._timer)
        if self._worker is not None:
            self._worker.invocations.pop(self.id, None)
        super().finish(value)

    def _forward(self, kind: int, payload: bytes = b"") -> None:
        if self._worker is not None and self.id in self._worker.invocations:
            self._worker.forward(kind, self.id, payload)
