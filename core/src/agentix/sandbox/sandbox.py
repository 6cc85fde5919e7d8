"""The one concrete sandbox: commands, files and Python calls, the same on every provider."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from agentix.errors import HostError, Unsupported, WireError
from agentix.interfaces.provider import ReachesServices, SwitchesNetwork
from agentix.models import Capability
from agentix.sandbox import command as commands
from agentix.sandbox import forward as forwarding
from agentix.sandbox import transfer
from agentix.sandbox import tree as trees
from agentix.sandbox.forward_target import Target, handler_of
from agentix.sandbox.function import Place
from agentix.sandbox.python_calls import PythonCalls
from agentix.sandbox.python_worker import PythonWorker
from agentix.sandbox.service import Service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agentix.bundle import MountedBundle
    from agentix.models import ExecResult, Network, SandboxConfig, SandboxInfo
    from agentix.sandbox.command import CommandStream
    from agentix.sandbox.connection import Connection
    from agentix.sandbox.transfer import DownloadReport
    from agentix.sandbox.tree import Tree

READ_LIMIT = 256 << 20
"""How much `read_file` takes into memory where no limit is given, in bytes."""

_IGNORED_AFTER = 3
"""The call to a lost sandbox from which on its user is taken to ignore `SandboxGone`."""

RemotePath = str | bytes | os.PathLike[str]


@dataclass(frozen=True, kw_only=True)
class Unreleased:
    """A sandbox that could not be deleted."""

    id: str
    provider: str
    message: str


class Sandbox(PythonCalls):
    """An isolated place where commands run.

    It lives as long as the `provider.session(config)` that gave it. Every method raises `SandboxGone` when the
    sandbox is lost, `WireError` when it sends something that is not the protocol, and for files the `OSError`
    that the sandbox's kernel gave. Relative paths start at `workdir`.

    Args:
        info: What is known of it.
        config: What it was asked to be.
        connect: Gives the connection to its runtime.
        capabilities: Gives what its provider declares.
        bundle: What is mounted in it besides the runtime.
        shares_host: Whether its files are the host's, so that Python calls without a bundle import what this process
            can.
        provider: Its provider, for what only that can do: switch the network, reach the services beside it.
    """

    def __init__(
        self,
        info: SandboxInfo,
        config: SandboxConfig,
        *,
        connect: Callable[[], Awaitable[Connection]],
        capabilities: Callable[[], frozenset[Capability]] = frozenset,
        bundle: MountedBundle | None = None,
        shares_host: bool = False,
        provider: object = None,
    ) -> None:
        self.id = info.id
        self.info = info
        self.config = config
        self.provider_name = info.provider
        self.bundle = bundle
        """The bundle that its commands and Python calls use; `None` where it has none."""
        self.workdir = posixpath.join(info.workdir, config.workdir) if config.workdir else info.workdir
        self.unreleased: Unreleased | None = None
        """Set after the session where the sandbox could not be deleted; that never hides what happened in it."""
        self.remarks: tuple[str, ...] = ()
        """Set after the session: what the provider has to tell of it, such as that processes were killed for memory."""
        self.teardown_s: float | None = None
        """Seconds that deleting it may take, where whoever uses it has a limit of their own; else the provider's."""
        self.on_ignored: Callable[[], None] | None = None
        """Told when somebody goes on calling although the sandbox is lost, as if that were one more tool output."""
        self._calls_after_end = 0
        self._capabilities = capabilities
        self._provider = provider
        self._connect = connect
        self._connecting = anyio.Lock()
        self._connection: Connection | None = None
        self._closed = False
        self._shares_host = shares_host
        self._python: PythonWorker | None = None

    def __repr__(self) -> str:
        return f"<Sandbox {self.id} of {self.provider_name}>"

    @property
    def _worker(self) -> PythonWorker:
        # Only made where it is needed: it refers back, so that memory would wait for a collection in every sandbox.
        if self._python is None:
            self._python = PythonWorker(
                Place(bundle=self.bundle, shares_host=self._shares_host),
                cwd=self._path(None),
                connect=self.connect,
                sandbox_id=self.id,
            )
        return self._python

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What its provider declares, for who must refuse a sandbox that lacks something."""
        return self._capabilities()

    @property
    def alive(self) -> bool:
        """Whether the sandbox can still be used, as far as is known."""
        return not self._closed and (self._connection is None or self._connection.open)

    @property
    def untouched(self) -> bool:
        """Whether nothing was ever asked of it, so that the directory its provider gave it is still empty.

        Only a provider that connects lazily has such sandboxes.
        """
        return self._connection is None

    async def set_network(self, network: Network, *, allowed_hosts: Sequence[str] = ()) -> None:
        """Change what everything in the sandbox may reach, from now on.

        Raises:
            Unsupported: Its provider cannot switch the network of a sandbox that runs, or not to this one.
        """
        provider = self._provider
        if Capability.NETWORK_SWITCH not in self.capabilities or not isinstance(provider, SwitchesNetwork):
            raise Unsupported(f"provider {self.provider_name} cannot switch the network of a sandbox that runs")
        await provider.set_network(self.id, network, allowed_hosts=allowed_hosts)

    def service(self, name: str) -> Service:
        """One of the services that run beside it.

        Raises:
            Unsupported: Its provider cannot reach into them.
        """
        if not isinstance(self._provider, ReachesServices):
            raise Unsupported(f"provider {self.provider_name} cannot reach into the service {name!r} beside a sandbox")
        return Service(self._provider, sandbox_id=self.id, name=name)

    async def connect(self) -> Connection:
        """The connection to the runtime, made on the first call."""
        if self._connection is None:
            async with self._connecting:
                if self._connection is None:
                    self._connection = await self._connect()
        elif not self._connection.open:
            self._calls_after_end += 1
            if self._calls_after_end >= _IGNORED_AFTER and self.on_ignored is not None:
                self.on_ignored()
            # Else whoever swallows every error in a loop would stop the event loop, and could not be stopped.
            await anyio.lowlevel.checkpoint()
        return self._connection

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        stdin: bytes | Path | None = None,
        cwd: RemotePath | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout_s: float | None = None,
        output_limit: int = commands.OUTPUT_LIMIT,
        pty: bool = False,
    ) -> ExecResult:
        """Run a command until its process exits; what it leaves running lives on.

        Args:
            command: A string for the sandbox's `bash`, else `sh`, or a program and its arguments.
            stdin: What it reads: bytes, or a file on the host; nothing by default.
            cwd: Where it starts; `workdir` by default.
            env: Variables over those of the sandbox and its config.
            user: A name, a uid or `user:group`; the config's by default.
            timeout_s: After so many seconds it and everything below it is killed; the result says so and has
                the output until then. Cancelling kills the same way.
            output_limit: How many bytes of each stream are kept; above it, the head and the tail.
            pty: Give it a terminal, which merges stderr into stdout.

        Returns:
            The result, also where the program does not exist (127) or is not executable (126).

        Raises:
            ValueError: The kernel cannot take an argument or variable of that size or content.
            OSError: It cannot be started: `cwd` does not exist, the user may not be changed, no process is left.
            EnvFailed: There is no such user.
        """
        arguments = commands.request(
            command, stdin=stdin, cwd=self._path(cwd), env=env, user=user, timeout_s=timeout_s, pty=pty
        )
        connection = await self.connect()
        return await commands.run(connection, arguments, stdin=stdin, output_limit=output_limit)

    def stream(
        self,
        command: str | Sequence[str],
        *,
        stdin: bytes | Path | None = None,
        cwd: RemotePath | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout_s: float | None = None,
        output_limit: int = commands.OUTPUT_LIMIT,
        pty: bool = False,
    ) -> AbstractAsyncContextManager[CommandStream]:
        """Run a command and take its output as it comes.

        Without `stdin`, input is sent with `send` and ended with `close_input`. Leaving the context kills what
        still runs. The arguments are those of `exec`; `output_limit` is how much of each stream `result` keeps.
        """
        arguments = commands.request(
            command, stdin=stdin, cwd=self._path(cwd), env=env, user=user, timeout_s=timeout_s, pty=pty
        )

        @asynccontextmanager
        async def running() -> AsyncIterator[CommandStream]:
            connection = await self.connect()
            async with commands.stream(connection, arguments, stdin=stdin, output_limit=output_limit) as stream:
                yield stream

        return running()

    async def read_file(self, path: RemotePath, *, limit: int | None = None) -> bytes:
        """The bytes of a regular file.

        Args:
            path: Where it is.
            limit: The most bytes to take into memory; 256 MiB by default.

        Raises:
            OSError: It cannot be read; EFBIG where it is larger than the limit, EINVAL for a pipe or device.
        """
        most = READ_LIMIT if limit is None else limit
        content = bytearray()
        connection = await self.connect()
        async with connection.call("read", {"path": self._path(path), "limit": most}) as call:
            while (received := await call.receive()) is not None:
                content += received[1]
                if len(content) > most:
                    raise WireError("the sandbox's runtime sent more of a file than was asked for")
            await call.result()
        return bytes(content)

    async def write_file(self, path: RemotePath, data: bytes, *, mode: int = 0o644, user: str | None = None) -> None:
        """Write a file, over one that exists, and make the directories above it.

        Args:
            path: Where it shall be.
            data: Its content.
            mode: Its permission bits.
            user: Who shall own it and the directories made; the runtime's user by default.
        """
        connection = await self.connect()
        arguments = {"path": self._path(path), "mode": mode, "user": user}
        async with connection.call("write", arguments) as call:
            await call.send(data)
            call.end_input()
            await call.result()

    async def upload(
        self,
        local: str | Path,
        remote: RemotePath,
        *,
        user: str | None = None,
        exclude: Sequence[str] | None = None,
    ) -> None:
        """Copy a file or tree into the sandbox, with its modes; what lies there already is kept or overwritten.

        Args:
            local: A file or a directory on the host; links in it are copied as links.
            remote: What the file, or the directory, shall be called there.
            user: Who shall own it; the runtime's user by default.
            exclude: Patterns, as of `fnmatch`, for names or relative paths to leave out; `.` leaves the mode and
                owner of a directory that is there already as they are.
        """
        connection = await self.connect()
        await transfer.upload(connection, Path(local), self._path(remote), user=user, exclude=tuple(exclude or ()))

    async def download(
        self,
        remote: RemotePath,
        local: str | Path,
        *,
        max_bytes: int = transfer.MAX_DOWNLOAD_BYTES,
        max_entries: int = transfer.MAX_DOWNLOAD_ENTRIES,
        members: Sequence[bytes] | None = None,
    ) -> DownloadReport:
        """Copy a file or tree out of the sandbox, which is not trusted.

        Nothing is written outside of `local`; links that lead out of it, devices, pipes, sockets and what is over
        a limit are left out and reported, and the rest is collected. Do not follow the links that came.

        Args:
            remote: A file or a directory.
            local: What the file, or the directory, shall be called on the host.
            max_bytes: How many bytes of content to take.
            max_entries: How many files, links and directories to take.
            members: Relative paths to take instead of the whole tree.

        Raises:
            FileNotFoundError: There is nothing at `remote`.
        """
        connection = await self.connect()
        return await transfer.download(
            connection,
            self._path(remote),
            Path(local),
            max_bytes=max_bytes,
            max_entries=max_entries,
            members=members,
        )

    async def tree(
        self,
        path: RemotePath,
        *,
        exclude: Sequence[str] = (".git",),
        max_entries: int = trees.MAX_TREE_ENTRIES,
        max_bytes: int = trees.MAX_TREE_BYTES,
    ) -> Tree:
        """List the files below a directory with their git blob ids, hashed inside the sandbox.

        Args:
            path: The directory.
            exclude: Names, at any depth, or relative paths to leave out.
            max_entries: The most entries to list.
            max_bytes: The most content to hash.

        Raises:
            OSError: It cannot be read, or changed meanwhile (EBUSY), or is over a limit (EFBIG).
        """
        connection = await self.connect()
        return await trees.tree(
            connection, self._path(path), exclude=exclude, max_entries=max_entries, max_bytes=max_bytes
        )

    async def remove(self, path: RemotePath) -> None:
        """Remove a file, a link or a whole tree; nothing there is no error."""
        await self._simple("remove", path=self._path(path))

    async def make_dirs(self, path: RemotePath, *, mode: int = 0o755, user: str | None = None) -> None:
        """Make a directory and those above it; one that exists stays as it is."""
        await self._simple("make_dirs", path=self._path(path), mode=mode, user=user)

    async def exists(self, path: RemotePath) -> bool:
        """Whether there is something at a path, links followed."""
        return bool(await self._simple("exists", path=self._path(path)))

    def forward(
        self, target: Target, *, port: int = 0, max_connections: int = forwarding.MAX_CONNECTIONS
    ) -> AbstractAsyncContextManager[forwarding.ForwardAddress]:
        """Let processes of the sandbox reach one thing outside of it, whatever its network is.

        A port of the sandbox's own loopback leads there for as long as the context is open; leaving it ends the
        connections too. Nothing in the sandbox can choose another place to be connected with.

        Args:
            target: Where a connection leads: a port of the host's loopback, a host and a port, the path of a unix
                socket on the host, or an async function that is given the connection as a stream. The connection ends
                when the function returns, and as a reset when it raises, which is logged.
            port: The port inside, or 0 for one that is free.
            max_connections: How many connections there may be at a time; who comes then waits.

        Returns:
            A context that gives the address to connect to inside the sandbox.

        Raises:
            OSError: The port is taken inside the sandbox, or needs more rights.
        """
        handler = handler_of(target)
        if max_connections < 1:
            raise ValueError(f"max_connections is {max_connections}; it must be at least 1")

        @asynccontextmanager
        async def open_port() -> AsyncIterator[forwarding.ForwardAddress]:
            connection = await self.connect()
            async with forwarding.forward(
                connection, handler, port=port, most=max_connections, sandbox_id=self.id
            ) as address:
                yield address

        return open_port()

    async def count_processes(self) -> int:
        """How many processes run in the sandbox besides the runtime, which is what `kill_all` would end."""
        value = await self._simple("count_processes")
        if not isinstance(value, int) or value < 0:
            raise WireError("the sandbox's runtime counted processes in a form that is none")
        return value

    async def kill_all(self) -> None:
        """End every process in the sandbox but the runtime.

        Raises:
            HostError: Some could not be killed.
        """
        value = await self._simple("kill_all")
        if not isinstance(value, dict) or not isinstance(value.get("left"), int):
            raise WireError("the sandbox's runtime answered kill_all in a form that is none")
        if value["left"]:
            raise HostError(f"{value['left']} processes in sandbox {self.id} could not be killed")

    async def aclose(self) -> None:
        """End the connection, and with it all that runs; the session does this."""
        self._closed = True
        if self._connection is not None:
            await self._connection.aclose()

    async def _simple(self, method: str, **arguments: Any) -> Any:
        connection = await self.connect()
        async with connection.call(method, arguments) as call:
            return await call.result()

    def _path(self, path: RemotePath | None) -> bytes:
        raw = b"" if path is None else os.fsencode(path)
        if b"\0" in raw:
            raise ValueError(f"the path {path!r} holds a NUL")
        return posixpath.join(os.fsencode(self.workdir), raw) if raw else os.fsencode(self.workdir)
