"""Starts one sandbox: plain system calls, run on a thread that outlives it."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentix.api import EnvFailed, HostError, start_time
from agentix.providers.local import cgroups
from agentix.providers.local.arguments import Root, namespace_arguments, root_arguments
from agentix.providers.local.box import Box, log_tail, stop
from agentix.providers.local.bubblewrap import Bubblewrap
from agentix.providers.local.identity import Identity
from agentix.providers.local.image import Entry
from agentix.providers.local.lease import Lease, Leases
from agentix.providers.local.network import Connect, Network
from agentix.providers.local.preflight import explain, explain_os_error
from agentix.providers.local.seeding import read_report, seed_command, send_entries

_START_LIMIT_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that starting a sandbox takes."""

    bubblewrap: Bubblewrap
    identity: Identity
    root: Root
    server: Sequence[str]
    """Command of the runtime's server, to which the descriptor of the wire is added."""
    files: Mapping[str, bytes]
    """What is written to places inside."""
    limits: cgroups.Limits
    rlimits: Sequence[tuple[int, int]] = ()
    """Limits of each process by their number in `resource`, for what no control group limits."""
    entries: Sequence[Entry] = ()
    """What the Dockerfile copies."""
    seed_limit_s: float = 600.0
    connect: Connect | None = None
    """What gives it a network of its own."""


def start(plan: Plan, lease: Lease, leases: Leases) -> Box:
    """Start a sandbox; what a failure leaves is removed before it is raised.

    Raises:
        HostError: The sandbox cannot be made on this machine.
        EnvFailed: A file that the Dockerfile copies cannot be written.
    """
    with contextlib.ExitStack() as undo:
        undo.callback(leases.release, lease)
        try:
            box = _start(plan, lease, leases, undo)
        except OSError as error:
            raise explain_os_error(error) from error
        undo.pop_all()
        return box


def _start(plan: Plan, lease: Lease, leases: Leases, undo: contextlib.ExitStack) -> Box:
    groups = tuple(Path(path) for path in lease.cgroups)
    undo.callback(cgroups.remove, groups)
    cgroups.create(groups, plan.limits)
    log = os.memfd_create("agentix-sandbox-log", os.MFD_CLOEXEC)
    undo.callback(os.close, log)
    ours, theirs = socket.socketpair()
    undo.callback(ours.close)
    with _Pipes() as pipes, theirs:
        block, unblock = pipes.gate()
        report, info = pipes.backwards()
        files = {place: _memory_file(content, pipes) for place, content in plan.files.items()}
        server = [*plan.server, "--fd", str(theirs.fileno())]
        inherited = [theirs.fileno(), block, info, *files.values()]
        if plan.entries:
            content, send = pipes.towards()
            said, status = pipes.backwards()
            inherited += [content, status]
            server = [*seed_command(plan.root.runtime.argv, entries=content, status=status), *server]
        command = [
            str(plan.bubblewrap.path),
            *namespace_arguments(lease.id, share_network=plan.root.share_network, block=block, info=info),
            *root_arguments(plan.root, files=files),
            *server,
        ]
        process = _spawn(command, identity=plan.identity, log=log, inherited=inherited)
        undo.callback(stop, process)
        pipes.close_theirs()
        first = _first_pid(report, log)
        undo.callback(stop, process, first=first)
        lease = leases.update(lease, processes=tuple((pid, start_time(pid) or 0) for pid in (process.pid, first)))
        _admit(first, plan, groups)
        name = _name(first) if plan.connect is not None else None
        os.write(unblock, b"\n")
        network = None
        if plan.connect is not None:
            _wait_for_another_name(first, name)
            network = plan.connect(first)
        if isinstance(network, Network):
            undo.callback(network.close)
        if plan.entries:
            _seed(plan, send=pipes.keep(send), said=said, log=log)
    if isinstance(network, str):
        return Box(lease=lease, process=process, wire=ours, log=log, notes=(f"the sandbox has no network: {network}",))
    return Box(lease=lease, process=process, wire=ours, log=log, network=network)


def _spawn(
    command: Sequence[str], *, identity: Identity, log: int, inherited: Sequence[int]
) -> subprocess.Popen[bytes]:
    uid = identity.popen_user()
    with identity.worn():
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=inherited,
            cwd="/",
            env={},
            user=uid,
            group=uid,
            extra_groups=None if uid is None else (),
            # What a terminal sends is for its owner, who ends it when what runs has ended.
            start_new_session=True,
        )


def _first_pid(report: int, log: int) -> int:
    """The host's pid of the sandbox's first process, which bubblewrap reports before it waits for us."""
    deadline = time.monotonic() + _START_LIMIT_S
    text = b""
    poll = select.poll()
    poll.register(report, select.POLLIN)
    while b"}" not in text:
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise HostError(f"bubblewrap has not started a sandbox in {_START_LIMIT_S:.0f} s", detail="bubblewrap")
        chunk = os.read(report, 4096)
        if not chunk:
            raise explain(log_tail(log))
        text += chunk
    return int(json.loads(text)["child-pid"])


def _name(pid: int) -> str | None:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
    return None


def _wait_for_another_name(pid: int, name: str | None) -> None:
    """Return when bubblewrap has become the server, or has ended.

    Both bubblewrap and what gives a network set up the loopback interface, and bubblewrap gives up where it is up.
    """
    deadline = time.monotonic() + _START_LIMIT_S
    while name is not None and _name(pid) == name and time.monotonic() < deadline:
        time.sleep(0.001)


def _admit(pid: int, plan: Plan, groups: tuple[Path, ...]) -> None:
    """Set what holds for everything that the first process will start, while it waits."""
    plan.identity.write_maps(pid)
    if plan.rlimits:
        # Its own user may lower its limits; somebody else needs a capability that root in a container lacks.
        with plan.identity.worn():
            for name, value in plan.rlimits:
                hard = resource.prlimit(pid, name)[1]
                least = value if hard == resource.RLIM_INFINITY else min(value, hard)
                resource.prlimit(pid, name, (least, least))
    cgroups.enter(groups, pid)


def _seed(plan: Plan, *, send: int, said: int, log: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        send_entries(plan.entries, send, limit_s=plan.seed_limit_s)
    problem = read_report(said, limit_s=plan.seed_limit_s)
    if problem is not None:
        raise EnvFailed(f"the files of the Dockerfile cannot be copied: {problem or log_tail(log)}", detail="copy")


def _memory_file(content: bytes, pipes: _Pipes) -> int:
    descriptor = os.memfd_create("agentix-sandbox-file", os.MFD_CLOEXEC)
    pipes.theirs.append(descriptor)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


class _Pipes:
    """The descriptors that one start needs, each closed exactly once."""

    def __init__(self) -> None:
        self.ours: list[int] = []
        self.theirs: list[int] = []

    def towards(self) -> tuple[int, int]:
        """A pipe that we write to: their end, our end."""
        read, write = os.pipe()
        self.theirs.append(read)
        self.ours.append(write)
        return read, write

    def gate(self) -> tuple[int, int]:
        """A pipe whose reader waits for what we write and for nothing else: our death does not end it.

        Bubblewrap takes the end of a file for the word to go on, and would do so without its uids.
        """
        read, write = self.towards()
        both = os.open(f"/proc/self/fd/{read}", os.O_RDWR | os.O_CLOEXEC)
        os.dup2(both, read, inheritable=False)
        os.close(both)
        return read, write

    def backwards(self) -> tuple[int, int]:
        """A pipe that we read from: our end, their end."""
        read, write = os.pipe()
        self.ours.append(read)
        self.theirs.append(write)
        return read, write

    def keep(self, descriptor: int) -> int:
        """Hand over the closing of one of ours."""
        self.ours.remove(descriptor)
        return descriptor

    def close_theirs(self) -> None:
        """Close what the sandbox has by now."""
        while self.theirs:
            os.close(self.theirs.pop())

    def __enter__(self) -> _Pipes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_theirs()
        while self.ours:
            os.close(self.ours.pop())
