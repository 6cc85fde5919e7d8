"""The server inside a sandbox: one thread, one epoll, one stream to the host.

As PID 1 it reaps every orphan; elsewhere it makes itself a subreaper, to the same end. Nothing else in the sandbox
may look into it. When its stream ends, so does everything that it started.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import posix
import select
import sys
import time
from _collections import deque  # type: ignore[import-not-found]

from agentix.runtime import processes, wire
from agentix.runtime.call import Call
from agentix.runtime.supervisors import Supervisors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from agentix.runtime.python import Worker
    from agentix.runtime.stdio import Stdio

CONGESTED = 1 << 19
"""With so many bytes waiting to be sent, nobody reads more from files and pipes."""

_RECEIVE, _RECEIVE_MORE = 1 << 16, 1 << 18
_BURST = 1 << 18
_END_S = 5.0
_KILL_ALL_S = 10.0
_SWEEP_S = 0.003
_QUICK_REAPS, _QUICK_S = 6, 0.0003
_LONGEST_S = 3600.0


class Server:
    """The event loop and the calls under way.

    Args:
        stream: A connected stream socket to the host, or the two pipes of its stdin and stdout.
        entrypoint: What to start when the host has said hello: a directory, a program and its arguments.
    """

    def __init__(self, stream: _socket.socket | Stdio, *, entrypoint: Sequence[str] = ()) -> None:
        self.pid = posix.getpid()
        self.calls: dict[int, Call] = {}
        self.settings: dict[str, Any] = {}
        self.worker: Worker | None = None
        self._stream = stream
        self._entrypoint: Sequence[str] = entrypoint
        self._entrypoint_pid = 0
        self._reader = wire.FrameReader(wire.FROM_HOST)
        self._room = _RECEIVE
        self._out: deque[bytes] = deque()
        self._waiting = 0
        self._writing = False
        self._woken: dict[Call, None] = {}
        self._soon: list[Callable[[], None]] = []
        self._timers: list[list[Any]] = []
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._epoll = select.epoll()
        self._over = False
        wakeup, written = posix.pipe2(posix.O_CLOEXEC | posix.O_NONBLOCK)
        _signal.set_wakeup_fd(written, warn_on_full_buffer=False)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        if self.pid != 1:
            # Without a handler PID 1 gets no signal from inside its namespace: nothing there can end it.
            _signal.signal(_signal.SIGTERM, self._terminated)
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
        self._wakeup = wakeup
        self.watch(wakeup, select.EPOLLIN, self._reap)
        stream.setblocking(False)
        self._source = stream.fileno()
        self._sink = self._source if isinstance(stream, _socket.socket) else stream.sink()
        self.watch(self._source, select.EPOLLIN, self._receive)
        self.supervisors = Supervisors(self)

    def watch(self, fd: int, events: int, handler: Callable[[int], None]) -> None:
        """Call `handler` with what happens to a descriptor."""
        self._epoll.register(fd, events)
        self._handlers[fd] = handler

    def rearm(self, fd: int, events: int) -> None:
        """Change what is watched for."""
        self._epoll.modify(fd, events)

    def unwatch(self, fd: int) -> None:
        """Forget a descriptor; call it before closing it."""
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def wake(self, call: Call) -> None:
        """Give a call its turn; the turns go round."""
        self._woken[call] = None

    def soon(self, function: Callable[[], None]) -> None:
        """Call a function once this turn's answers are sent."""
        self._soon.append(function)

    def later(self, seconds: float, function: Callable[[], None]) -> list[Any]:
        """Call a function after some time."""
        timer = [time.monotonic() + seconds, function]
        # Few wait at a time: loading the module for heaps would cost more than it saves.
        at = len(self._timers)
        while at and self._timers[at - 1][0] > timer[0]:
            at -= 1
        self._timers.insert(at, timer)
        return timer

    def forget(self, timer: list[Any]) -> None:
        """Do not call a timer's function."""
        timer[1] = None

    @property
    def congested(self) -> bool:
        """Whether the host takes its frames more slowly than they come."""
        return self._waiting >= CONGESTED

    def send(self, frame: bytes) -> None:
        """Send a frame after those that wait already."""
        self._out.append(frame)
        self._waiting += len(frame)

    def serve(self) -> None:
        """Answer the host until the stream ends."""
        try:
            while not self._over:
                self._turn()
        finally:
            self._end()

    def _turn(self) -> None:
        for fd, events in self._epoll.poll(self._timeout(), 128):
            handler = self._handlers.get(fd)
            if handler is not None:
                handler(events)
        self._run_timers()
        self._take_turns()
        self._flush()
        if self._soon:
            functions, self._soon = self._soon, []
            for function in functions:
                function()

    def _timeout(self) -> float:
        if self._woken and not self.congested:
            return 0
        while self._timers and self._timers[0][1] is None:
            self._timers.pop(0)
        return min(max(0.0, self._timers[0][0] - time.monotonic()), _LONGEST_S) if self._timers else -1

    def _run_timers(self) -> None:
        while self._timers and (self._timers[0][1] is None or self._timers[0][0] <= time.monotonic()):
            function = self._timers.pop(0)[1]
            if function is not None:
                function()

    def _take_turns(self) -> None:
        for _ in range(len(self._woken)):
            if self.congested or not self._woken:
                return
            call = next(iter(self._woken))
            del self._woken[call]
            try:
                call.step()
            except Exception as error:
                call.fail(error)

    def _flush(self) -> None:
        while self._out:
            burst = bytearray()
            while self._out and len(burst) < _BURST:
                burst += self._out.popleft()
            try:
                sent = self._stream.send(burst)
            except BlockingIOError:
                sent = 0
            except OSError:
                self._over = True
                return
            self._waiting -= sent
            if sent < len(burst):
                self._out.appendleft(bytes(burst[sent:]))
                self._wait_to_write(True)
                return
        self._wait_to_write(False)

    def _wait_to_write(self, wanted: bool) -> None:
        if wanted == self._writing:
            return
        self._writing = wanted
        if self._sink == self._source:
            self.rearm(self._source, select.EPOLLIN | select.EPOLLOUT if wanted else select.EPOLLIN)
        elif wanted:
            # Being woken is all that it takes: every turn ends with sending.
            self.watch(self._sink, select.EPOLLOUT, lambda events: None)
        else:
            self.unwatch(self._sink)

    def _receive(self, events: int) -> None:
        if not events & ~select.EPOLLOUT:
            return
        try:
            received = self._stream.recv(self._room)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            self._over = True
            return
        if len(received) == self._room:
            self._room = _RECEIVE_MORE
        for kind, number, payload in self._reader.feed(received):
            self._dispatch(kind, number, payload)

    def _dispatch(self, kind: int, number: int, payload: bytes) -> None:
        if kind == wire.CALL:
            self._start(number, payload)
        elif kind == wire.PING:
            self.send(wire.frame(wire.PONG, 0, payload))
        elif kind == wire.HELLO:
            self.settings = wire.decode(payload)
            self.send(wire.frame(wire.HELLO, 0, wire.encode(self._greeting())))
            self.soon(self.supervisors.fork_ahead)
            if self._entrypoint:
                self.soon(self._start_entrypoint)
        elif (call := self.calls.get(number)) is None:
            # It ended while this was under way.
            return
        elif kind == wire.DATA:
            call.received(payload)
        elif kind == wire.END:
            call.end_input()
        elif kind == wire.CREDIT:
            call.add_credit(int.from_bytes(payload, "big"))
        elif kind == wire.CANCEL:
            call.cancel()

    def _greeting(self) -> dict[str, Any]:
        return {
            "protocol": wire.PROTOCOL,
            "pid": self.pid,
            "uid": posix.geteuid(),
            "uname": list(posix.uname()),
            "python": sys.version.partition(" ")[0],
        }

    def _start(self, number: int, payload: bytes) -> None:
        call = Call(self, number)
        self.calls[number] = call
        try:
            if not self.settings:
                raise PermissionError(1, "there was no hello")
            method, arguments = wire.decode(payload)
            self.calls[number] = self._make(method, number, arguments)
        except Exception as error:
            call.fail(error)

    def _make(self, method: str, number: int, arguments: dict[str, Any]) -> Call:
        if method == "exec":
            from agentix.runtime.execution import start

            return start(self, number, arguments)
        if method == "kill_all":
            return KillAll(self, number)
        if method == "count_processes":
            return CountProcesses(self, number)
        if method in ("worker", "python"):
            from agentix.runtime import python

            return (python.Worker if method == "worker" else python.Invocation)(self, number, arguments)
        if method in ("forward", "accept"):
            from agentix.runtime.forward import start as start_forward

            return start_forward(self, number, method, arguments)
        from agentix.runtime.files import start as start_file_task

        return start_file_task(self, number, method, arguments)

    def _start_entrypoint(self) -> None:
        from agentix.runtime import entrypoint

        directory, argv = self._entrypoint[0], self._entrypoint[1:]
        self._entrypoint = ()
        self.supervisors.share()
        self._entrypoint_pid = entrypoint.start(argv, directory, self.settings)

    def _entrypoint_ended(self, status: int) -> None:
        from agentix.runtime import entrypoint

        self._entrypoint_pid = 0
        entrypoint.log(f"the image's entrypoint ended with exit code {posix.waitstatus_to_exitcode(status)}")

    def _terminated(self, signal: int, stack: object) -> None:
        self._over = True

    def _reap(self, events: int) -> None:
        posix.read(self._wakeup, 4096)
        while True:
            try:
                pid, status = posix.waitpid(-1, posix.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._entrypoint_pid:
                self._entrypoint_ended(status)
            else:
                self.supervisors.reaped(pid, status)

    def _end(self) -> None:
        self._epoll.close()
        self._stream.close()
        if self.pid == 1:
            # The kernel kills what is left in the namespace, and waits for it.
            return
        # Where only idle supervisors are left, they need not be looked for.
        processes.send(self.supervisors.pids, processes.SIGKILL)
        for _ in range(_QUICK_REAPS):
            if _reap_all():
                return
            time.sleep(_QUICK_S)
        deadline = time.monotonic() + _END_S
        while time.monotonic() < deadline:
            processes.kill_all(self.pid)
            if _reap_all():
                return
            time.sleep(_SWEEP_S)


def _reap_all() -> bool:
    """Reap what has ended; whether nothing is left, since whatever loses its parent becomes a child of this process."""
    try:
        while posix.waitpid(-1, posix.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


class KillAll(Call):
    """Ends every process in the sandbox but the runtime's own."""

    def __init__(self, server: Server, id: int) -> None:
        super().__init__(server, id)
        self._killed = 0
        self._deadline = time.monotonic() + _KILL_ALL_S
        server.wake(self)

    def step(self) -> None:
        """Kill one generation, and come back until there is none."""
        server = self.server
        count = processes.kill_all(server.pid, everything=server.pid == 1, spared=server.supervisors.pids)
        if count and time.monotonic() < self._deadline:
            self._killed += count
            server.later(_SWEEP_S, lambda: server.wake(self))
        else:
            self.finish({"killed": self._killed, "left": count})


class CountProcesses(Call):
    """Counts the processes in the sandbox besides the runtime's own."""

    def __init__(self, server: Server, id: int) -> None:
        super().__init__(server, id)
        server.wake(self)

    def step(self) -> None:
        """Count."""
        server = self.server
        found = processes.living(server.pid, everything=server.pid == 1, spared=server.supervisors.pids)
        self.finish(len(found))


def main() -> None:
    """Start the server as the command line says."""
    arguments = sys.argv[1:]
    stream: _socket.socket | Stdio
    remove, entrypoint = "", arguments[1:]
    if arguments[:1] == ["--stdio"]:
        from agentix.runtime.stdio import Stdio

        stream = Stdio()
    elif arguments[::2] in (["--fd"], ["--fd", "--remove"]) and not len(arguments) % 2 and arguments[1].isdigit():
        while posix.open("/dev/null", posix.O_RDWR) <= 2:
            pass
        stream = _socket.socket(fileno=int(arguments[1]))
        remove, entrypoint = "".join(arguments[3:]), []
    else:
        sys.stderr.write("agentix runtime: usage: --fd N [--remove PATH] | --stdio [DIRECTORY PROGRAM [ARGUMENT...]]\n")
        sys.exit(2)
    for name in posix.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                posix.set_inheritable(int(name), False)
            except OSError:
                continue
    posix.umask(0o022)
    # These files belong to another user where the kernel protects this process already.
    if posix.stat("/proc/self/fd").st_uid == posix.geteuid():
        processes.prctl(processes.PR_SET_DUMPABLE, 0)
    if posix.getpid() != 1:
        processes.prctl(processes.PR_SET_CHILD_SUBREAPER, 1)
    try:
        Server(stream, entrypoint=entrypoint).serve()
    finally:
        if remove:
            from agentix.runtime.files import remove_tree

            try:
                for _ in remove_tree(remove.encode("utf-8", "surrogateescape")):
                    pass
            except OSError as error:
                sys.stderr.write(f"agentix runtime: {remove} could not be removed: {error}\n")
    # What the interpreter would tidy up now, the kernel does faster.
    posix._exit(0)
