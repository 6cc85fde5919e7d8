"""The server inside a sandbox: one thread, one epoll, one stream to the host.

As PID 1 it reaps every orphan; elsewhere it makes itself a subreaper, to the same end. Nothing else in the sandbox
may look into it. When its stream ends, and the host does not come back, so does everything that it started.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import posix
import select
import sys
import time

from agentix.runtime import wire
from agentix.runtime.call import Call
from agentix.runtime.commands import Commands
from agentix.runtime.exposure import Exposure
from agentix.runtime.link import Link
from agentix.runtime.loop import Loop
from agentix.runtime.stream import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from agentix.runtime.listener import Listener
    from agentix.runtime.python import Worker

_END_S = 5.0
_SWEEP_S = 0.003
_QUICK_REAPS, _QUICK_S = 6, 0.0003


class Server(Loop):
    """The calls under way, and the processes that they started.

    Args:
        stream: To the host.
        exposure: What commands are started in.
        entrypoint: What to start when the host has said hello: a directory, a program and its arguments.
    """

    def __init__(self, stream: Stream, *, exposure: Exposure, entrypoint: Sequence[str] = ()) -> None:
        super().__init__()
        self.pid = posix.getpid()
        self.exposure = exposure
        self.calls: dict[int, Call] = {}
        self.settings: dict[str, Any] = {}
        self.worker: Worker | None = None
        self.link = Link(self, dispatch=self._dispatch, lost=self._lost)
        self.send = self.link.send
        self._listener: Listener | None = None
        self._grace_s = 0.0
        self._waiting: list[Any] | None = None
        self._entrypoint: Sequence[str] = entrypoint
        self._entrypoint_pid = 0
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
        self.link.attach(stream)
        self.commands = Commands(self)

    @property
    def congested(self) -> bool:  # type: ignore[override]
        """Whether the host takes its frames more slowly than they come."""
        return self.link.congested

    def serve(self) -> None:
        """Answer the host until it is gone."""
        try:
            while not self._over:
                self.turn(self.link.flush)
        finally:
            self._end()

    def own_pids(self) -> set[int]:
        """The processes that belong to the runtime, besides the server itself."""
        own = self.commands.pids
        if self._listener is not None and self._listener.bridge:
            own.add(self._listener.bridge)
        return own

    def found(self, stream: Stream, received: int) -> None:
        """The host is there again.

        Args:
            stream: The stream to it.
            received: How many bytes it has received before.
        """
        if self._waiting is not None:
            self.forget(self._waiting)
            self._waiting = None
        self.link.go_on(stream, received)

    def _lost(self) -> None:
        if self._listener is None:
            self._over = True
            return
        self._listener.bridge = 0
        self._waiting = self.later(self._grace_s, self._give_up)

    def _give_up(self) -> None:
        self._over = True

    def _listen(self, terms: dict[str, Any]) -> None:
        from agentix.runtime.listener import Listener

        self._listener = Listener(self, terms)
        self._grace_s = terms["grace_s"]

    def _dispatch(self, kind: int, number: int, payload: bytes) -> None:
        if kind == wire.CALL:
            self._start(number, payload)
        elif kind == wire.PING:
            self.send(wire.frame(wire.PONG, 0, payload))
        elif kind == wire.ACK:
            self.link.acknowledged(payload)
        elif kind == wire.HELLO:
            self.settings = wire.decode(payload)
            if terms := self.settings.pop("resume", None):
                # What is sent from here on may have to be sent again, the answer to this hello first of all.
                self.link.keep()
                self.soon(lambda: self._listen(terms))
            self.send(wire.frame(wire.HELLO, 0, wire.encode(self._greeting())))
            self.soon(self.commands.fork_ahead)
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
            "root": _root(),
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
        if method in ("kill_all", "count_processes"):
            from agentix.runtime import sweeping

            return (sweeping.KillAll if method == "kill_all" else sweeping.CountProcesses)(self, number)
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
        self.commands.share()
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
                self.commands.reaped(pid, status)

    def _end(self) -> None:
        self.close()
        self.link.close()
        if self.pid == 1:
            # The kernel kills what is left in the namespace, and waits for it.
            return
        from agentix.runtime import processes

        # Where only idle supervisors are left, they need not be looked for.
        processes.send(self.commands.pids, processes.SIGKILL)
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


def _root() -> list[str] | None:
    """What is mounted at /: the type of the file system, and which of its directories it is; None where nobody says."""
    try:
        fd = posix.open("/proc/self/mountinfo", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = posix.read(fd, 1 << 14)
    except OSError:
        return None
    finally:
        posix.close(fd)
    # proc_pid_mountinfo(5)
    for line in text.splitlines():
        fields = line.split()
        if len(fields) > 6 and fields[4] == b"/" and b"-" in fields[6:-1]:
            kind = fields[fields.index(b"-", 6) + 1]
            return [kind.decode("utf-8", "replace"), fields[3].decode("utf-8", "replace")]
    return None


def _reap_all() -> bool:
    """Reap what has ended; whether nothing is left, since whatever loses its parent becomes a child of this process."""
    try:
        while posix.waitpid(-1, posix.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def main() -> None:
    """Start the server as the command line says."""
    arguments = sys.argv[1:]
    stream: Stream
    remove, entrypoint = "", arguments[1:]
    if arguments[:1] == ["--stdio"]:
        from agentix.runtime.stdio import open_stdio

        stream = open_stdio()
    elif arguments[::2] in (["--fd"], ["--fd", "--remove"]) and not len(arguments) % 2 and arguments[1].isdigit():
        while posix.open("/dev/null", posix.O_RDWR) <= 2:
            pass
        stream = Stream(int(arguments[1]))
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
    exposure = Exposure()
    # These files belong to another user where the kernel protects this process already.
    exposed = posix.stat("/proc/self/fd").st_uid == posix.geteuid()
    if exposed or posix.getpid() != 1:
        from agentix.runtime import processes

        if exposed:
            processes.prctl(processes.PR_SET_DUMPABLE, 0)
        if posix.getpid() != 1:
            processes.prctl(processes.PR_SET_CHILD_SUBREAPER, 1)
    try:
        Server(stream, exposure=exposure, entrypoint=entrypoint).serve()
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
