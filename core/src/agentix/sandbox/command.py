"""Running commands: what is sent to the runtime, and what its answer becomes."""

from __future__ import annotations

import math
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Any

import anyio

from agentix.errors import SandboxGone, WireError
from agentix.models import ExecResult, OutputChunk
from agentix.runtime import wire
from agentix.runtime.kept import Kept

if TYPE_CHECKING:
    from agentix.sandbox.call import Call
    from agentix.sandbox.connection import Connection

OUTPUT_LIMIT = 1_048_576
MAX_ARGUMENT = 131_071
"""The kernel's limit for one argument or one variable with its name, without the final NUL."""

_KILLED = 128 + 9
_OVERDUE_S = 60.0
_READ = 1 << 18


def request(
    command: str | Sequence[str],
    *,
    stdin: bytes | Path | None,
    cwd: bytes,
    env: Mapping[str, str] | None,
    user: str | None,
    timeout_s: float | None,
    pty: bool,
) -> dict[str, Any]:
    """The arguments of the runtime's `exec`.

    Raises:
        ValueError: The kernel could not take an argument or variable; the message names it.
    """
    if isinstance(command, str):
        encoded: bytes | list[bytes] = _argument(command, "the command")
    else:
        encoded = [_argument(part, f"argument {position}") for position, part in enumerate(command)]
        if not encoded or not encoded[0]:
            raise ValueError("the command is empty")
    if timeout_s is not None and not timeout_s > 0:
        raise ValueError(f"timeout_s is {timeout_s}; it must be more than 0")
    return {
        "command": encoded,
        "cwd": cwd,
        "env": environment(env),
        "user": user,
        "stdin": stdin is not None or pty,
        "timeout_s": None if timeout_s is None or math.isinf(timeout_s) else float(timeout_s),
        "pty": pty,
    }


def environment(env: Mapping[str, str] | None) -> dict[str, bytes]:
    """Variables as the runtime takes them.

    Raises:
        ValueError: The kernel could not take one; the message names it.
    """
    encoded = {}
    for name, value in (env or {}).items():
        raw, key = os.fsencode(value), os.fsencode(name)
        if not key or b"=" in key or b"\0" in key:
            raise ValueError(f"{name!r} cannot be the name of an environment variable")
        if b"\0" in raw:
            raise ValueError(f"the environment variable {name} holds a NUL")
        if len(key) + 1 + len(raw) > MAX_ARGUMENT:
            raise ValueError(
                f"the environment variable {name} has {len(raw)} bytes; the kernel takes no more than"
                f" {MAX_ARGUMENT - len(key) - 1}; hand it over by stdin or a file"
            )
        encoded[name] = raw
    return encoded


def _argument(part: str | os.PathLike[str], what: str) -> bytes:
    raw = os.fsencode(part)
    if b"\0" in raw:
        raise ValueError(f"{what} holds a NUL")
    if len(raw) > MAX_ARGUMENT:
        raise ValueError(
            f"{what} has {len(raw)} bytes; the kernel takes no more than {MAX_ARGUMENT} in one;"
            " hand it over by stdin or a file"
        )
    return raw


async def run(
    connection: Connection, arguments: dict[str, Any], *, stdin: bytes | Path | None, output_limit: int
) -> ExecResult:
    """Run a command to its end; see `Sandbox.exec`."""
    if output_limit < 0:
        raise ValueError(f"output_limit is {output_limit}; it cannot be negative")
    started = time.monotonic()
    timeout_s = arguments["timeout_s"]
    overdue = None if timeout_s is None else timeout_s + _OVERDUE_S
    outputs = {wire.STDOUT: bytearray(), wire.STDERR: bytearray()}
    async with connection.call("exec", {**arguments, "keep": output_limit}) as call:
        with anyio.move_on_after(overdue):
            if arguments["stdin"]:
                await feed(call, stdin)
            while (received := await call.receive()) is not None:
                channel, piece = received
                if channel not in outputs or len(outputs[channel]) + len(piece) > output_limit:
                    raise WireError("the sandbox's runtime sent more output than was asked for")
                outputs[channel] += piece
            value = await call.result()
            stdout, stderr = bytes(outputs[wire.STDOUT]), bytes(outputs[wire.STDERR])
            result = result_of(value, stdout, stderr, time.monotonic() - started)
            if _may_be_of_the_sandbox(result):
                await connection.confirm()
            return result
    raise SandboxGone(f"the sandbox's runtime did not end a command at its limit of {timeout_s} s")


async def feed(call: Call, stdin: bytes | Path | None) -> None:
    """Send a command its whole input."""
    if isinstance(stdin, Path):
        async with await anyio.open_file(stdin, "rb") as file:
            while piece := await file.read(_READ):
                if not await call.send(piece):
                    return
    elif stdin and not await call.send(stdin):
        return
    call.end_input()


def result_of(value: Any, stdout: bytes, stderr: bytes, duration_s: float) -> ExecResult:
    """The runtime's report on a command that ended.

    Raises:
        WireError: It is none, or contradicts the output that came.
    """
    malformed = "the sandbox's runtime reported the end of a command in a form that is none"
    try:
        written, timed_out = [*value["written"], 0][:2], value["timed_out"]
        code = os.waitstatus_to_exitcode(value["status"])
        if not isinstance(timed_out, bool) or {type(size) for size in written} != {int}:
            raise WireError(malformed)
        if len(stdout) > written[0] or len(stderr) > written[1]:
            raise WireError(malformed)
    except (TypeError, KeyError, ValueError, OverflowError, IndexError) as error:
        raise WireError(malformed) from error
    return ExecResult(
        exit_code=code if code >= 0 else 128 - code,
        signal=signal_name(-code) if code < 0 else None,
        stdout=stdout,
        stderr=stderr,
        timed_out=timed_out,
        duration_s=duration_s,
        stdout_bytes=written[0],
        stderr_bytes=written[1],
        truncated=len(stdout) < written[0] or len(stderr) < written[1],
    )


def _may_be_of_the_sandbox(result: ExecResult) -> bool:
    """Whether a command was killed as everything is when its sandbox is ended."""
    return result.exit_code == _KILLED and not result.timed_out


def signal_name(number: int) -> str:
    """A signal's name, such as `SIGKILL`."""
    try:
        return Signals(number).name
    except ValueError:
        return f"SIG{number}"


class CommandStream:
    """A running command: iterate over it for what it writes.

    Its output waits in the sandbox until it is taken here.
    """

    def __init__(self, call: Call, *, output_limit: int) -> None:
        self._call = call
        self._started = time.monotonic()
        self._kept = {"stdout": Kept(output_limit), "stderr": Kept(output_limit)}
        self._result: ExecResult | None = None

    @property
    def result(self) -> ExecResult:
        """How it ended, with the head and tail of its output.

        Raises:
            RuntimeError: It has not ended, or not all of its output was taken.
        """
        if self._result is None:
            raise RuntimeError("the command has not ended: iterate over its output first")
        return self._result

    def __aiter__(self) -> CommandStream:
        return self

    async def __anext__(self) -> OutputChunk:
        """The next piece of output.

        Raises:
            StopAsyncIteration: It has ended; `result` tells how.
            SandboxGone: The sandbox is lost.
        """
        if self._result is None:
            received = await self._call.receive()
            if received is not None:
                channel, piece = received
                if channel not in (wire.STDOUT, wire.STDERR):
                    raise WireError(f"the sandbox's runtime sent output on channel {channel}")
                stream: Any = "stdout" if channel == wire.STDOUT else "stderr"
                self._kept[stream].add(piece)
                return OutputChunk(stream=stream, data=piece)
            value = await self._call.result()
            stdout, stderr = self._kept["stdout"].value(), self._kept["stderr"].value()
            result = result_of(value, stdout, stderr, time.monotonic() - self._started)
            if _may_be_of_the_sandbox(result):
                await self._call.confirm()
            self._result = result
        raise StopAsyncIteration

    async def wait(self) -> ExecResult:
        """Take the rest of its output and return how it ended."""
        async for _ in self:
            pass
        return self.result

    async def send(self, data: bytes) -> None:
        """Write to its stdin; returns when the runtime has taken it.

        Raises:
            BrokenPipeError: It has ended.
        """
        if not await self._call.send(data):
            raise BrokenPipeError("the command has ended")

    async def close_input(self) -> None:
        """Close its stdin."""
        self._call.end_input()

    async def kill(self) -> None:
        """End it and everything below it; the result still comes."""
        self._call.cancel()


@asynccontextmanager
async def stream(
    connection: Connection, arguments: dict[str, Any], *, stdin: bytes | Path | None, output_limit: int
) -> AsyncIterator[CommandStream]:
    """Run a command and give its output as it comes; see `Sandbox.stream`."""
    if output_limit < 0:
        raise ValueError(f"output_limit is {output_limit}; it cannot be negative")
    error: BaseException | None = None
    unread: Exception | None = None
    async with connection.call("exec", {**arguments, "stdin": True, "keep": None}) as call:
        running = CommandStream(call, output_limit=output_limit)
        if stdin is None:
            yield running
            return

        async def feeding() -> None:
            nonlocal unread
            try:
                await feed(call, stdin)
            except Exception as raised:
                unread = raised
                group.cancel_scope.cancel()

        # What is raised inside is raised again outside of the group, which would wrap it.
        async with anyio.create_task_group() as group:
            group.start_soon(feeding)
            try:
                yield running
            except BaseException as raised:
                error = raised
            group.cancel_scope.cancel()
        if unread is not None:
            raise unread
        if error is not None:
            raise error
