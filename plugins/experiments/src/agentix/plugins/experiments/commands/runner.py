"""Runs configured commands: variables in, files and an exit status out."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from agentix.api import HostError, SandboxGone, Secrets
from agentix.plugins.experiments.commands.environment import environment
from agentix.plugins.experiments.commands.log import CommandLog, Scrubber
from agentix.plugins.experiments.commands.pins import CommandRefused, pinned_content
from agentix.plugins.experiments.commands.pool import Place, Pool
from agentix.plugins.experiments.commands.result import CommandResult

if TYPE_CHECKING:
    from agentix.api import ExecResult
    from agentix.plugins.experiments.commands.command import Command

KEPT_OUTPUT = 64 << 10
"""Bytes of each stream that a result holds: the head and the tail."""
_NOTHING: Mapping[str, str] = MappingProxyType({})


class CommandRunner:
    """Runs commands as plain processes of this user.

    A command gets no stdin and no terminal. At its timeout, and when it is cancelled, everything that it has started
    is killed, also what has left its process group or session; and what is still running when it ends is ended
    too. Nothing outlives this process, however that ends.

    Args:
        inherit_env: Whether commands see all of this machine's variables.
        host_env: Those variables; the process's own by default.
        masks: Values that are in no log and in no result either, whoever gave them to the command.
    """

    def __init__(
        self, *, inherit_env: bool = True, host_env: Mapping[str, str] | None = None, masks: Secrets | None = None
    ) -> None:
        self._inherit_env = inherit_env
        self._masks = Secrets() if masks is None else masks
        self._host_env = dict(os.environ if host_env is None else host_env)
        self._pool: Pool | None = None
        self._context: AbstractAsyncContextManager[None] | None = None

    @property
    def path(self) -> str | None:
        """Where programs are looked for."""
        return self._host_env.get("PATH")

    async def __aenter__(self) -> CommandRunner:
        self._context = self._running()
        await self._context.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        assert self._context is not None
        return await self._context.__aexit__(exc_type, error, traceback)

    async def run(
        self,
        command: Command,
        *,
        variables: Mapping[str, str] = _NOTHING,
        template: Mapping[str, str] = _NOTHING,
        secrets: Mapping[str, str] = _NOTHING,
        cwd: Path | None = None,
        timeout_s: float | None = None,
        log: Path | None = None,
    ) -> CommandResult:
        """Run a command to its end.

        Args:
            command: What to run. A pinned file is checked again; what runs is a copy of the bytes that were checked.
            variables: The step's own, added to its environment; templates in its words may name them too.
            template: More values that templates may name.
            secrets: Variables that are added to its environment, and whose values are in none of its words, in no
                log and in no result.
            cwd: Where it starts; this process's directory by default.
            timeout_s: Seconds that it may take; the command's own by default.
            log: Where to keep what it writes, the beginning and the end of it where that is much.

        Raises:
            CommandRefused: A pinned file does not match, or a secret would be among the words of the command.
            UsageError: A template names a variable without a value.
            HostError: It cannot be started at all, or what runs it was lost.
        """
        argv = command.arguments({**variables, **template})
        pinned = None if command.sha256 is None else await anyio.to_thread.run_sync(pinned_content, command)
        if any(len(secret) >= 4 and secret in word for secret in secrets.values() for word in argv):
            raise CommandRefused(
                f"the command {command.name}: a secret's value stands among its words, for everybody to see",
                hint="Read it from the environment instead.",
            )
        env = environment(
            self._host_env,
            inherit=self._inherit_env,
            declared=command.env,
            hidden=command.hidden,
            variables={**variables, **secrets},
        )
        where = Path.cwd() if cwd is None else Path.cwd() / cwd
        limit = command.timeout_s if timeout_s is None else timeout_s
        hidden = {*_bytes(secrets.values()), *self._masks.forms()}
        with CommandLog(log, hidden=hidden) as kept:
            try:
                result, left = await self._run(argv, env, pinned=pinned, cwd=where, timeout_s=limit, log=kept)
            except SandboxGone as error:
                raise HostError(f"the command {command.name}: what ran it was lost: {error.message}") from error
            except (OSError, ValueError) as error:
                raise HostError(f"the command {command.name} cannot be started: {error}") from error
        scrubber = Scrubber(hidden)
        return CommandResult(
            command=command.name,
            exit_code=result.exit_code,
            signal=result.signal,
            timed_out=result.timed_out,
            stdout=scrubber.scrubbed(result.stdout).decode("utf-8", "replace"),
            stderr=scrubber.scrubbed(result.stderr).decode("utf-8", "replace"),
            seconds=result.duration_s,
            limit_s=limit,
            killed=left,
        )

    async def _run(
        self,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        *,
        pinned: bytes | None,
        cwd: Path,
        timeout_s: float,
        log: CommandLog,
    ) -> tuple[ExecResult, bool]:
        assert self._pool is not None, "a CommandRunner runs commands inside of `async with`"
        place = await self._pool.take()
        result: ExecResult | None = None
        left = False
        try:
            if pinned is not None:
                argv = (await _placed(place, Path(argv[0]).name, pinned), *argv[1:])
            result = await _stream(place, argv, env, cwd=cwd, timeout_s=timeout_s, log=log)
        finally:
            with anyio.CancelScope(shield=True):
                left = await self._pool.give(place, clean=result is not None)
        assert result is not None
        return result, left

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        error: BaseException | None = None
        try:
            # What the body raises leaves the group first and is raised then: the group would wrap it.
            async with anyio.create_task_group() as group:
                self._pool = Pool(group)
                try:
                    yield
                except BaseException as raised:
                    error = raised
                with anyio.CancelScope(shield=True):
                    await self._pool.close()
        finally:
            self._pool = None
        if error is not None:
            raise error


def _bytes(secrets: Iterable[str]) -> Iterator[bytes]:
    return (secret.encode("utf-8", "surrogateescape") for secret in secrets)


async def _placed(place: Place, name: str, content: bytes) -> str:
    """Put a program where only this user may write, and which goes when the place does."""
    path = f"{place.sandbox.info.temporary}/pinned/{name}"
    await place.sandbox.write_file(path, content, mode=0o700)
    return path


async def _stream(
    place: Place, argv: tuple[str, ...], env: Mapping[str, str], *, cwd: Path, timeout_s: float, log: CommandLog
) -> ExecResult:
    async with place.sandbox.stream(argv, cwd=cwd, env=env, timeout_s=timeout_s, output_limit=KEPT_OUTPUT) as running:
        await running.close_input()
        async for piece in running:
            log.write(piece.data)
        return running.result
