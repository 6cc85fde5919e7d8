"""A connection whose other end is a command's stdin and stdout, such as `ssh HOST docker system dial-stdio`."""

from __future__ import annotations

import socket
import subprocess
import tempfile
from collections.abc import Callable
from typing import IO

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import ByteStream

from agentix.api import SocketStream

_END_S = 2.0
_SAID = 2000


async def open_command(
    argv: tuple[str, ...], *, broken: Callable[[str], Exception]
) -> tuple[ByteStream, socket.socket]:
    """Start the command.

    Args:
        argv: The command.
        broken: Makes the error of a command that fails before it has said anything, from the reason.

    Returns:
        The stream, and the socket that carries it.

    Raises:
        Exception: What `broken` makes, where it cannot be started.
    """
    ours, theirs = socket.socketpair()
    said = tempfile.TemporaryFile()  # noqa: SIM115 - the stream closes it
    try:
        with theirs:
            # In a session of its own, it neither asks on the terminal nor ends with the first Ctrl-C.
            process = await anyio.to_thread.run_sync(
                lambda: subprocess.Popen(
                    argv, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=said, start_new_session=True
                )
            )
    except BaseException as error:
        ours.close()
        said.close()
        if isinstance(error, OSError):
            raise broken(f"{argv[0]} cannot be started: {error.strerror or error}") from error
        raise
    return CommandStream(ours, process, said, name=argv[0], broken=broken), ours


class CommandStream(SocketStream):
    """The stream to a command, which ends with it."""

    def __init__(
        self,
        raw: socket.socket,
        process: subprocess.Popen[bytes],
        said: IO[bytes],
        *,
        name: str,
        broken: Callable[[str], Exception],
    ) -> None:
        super().__init__(raw)
        self._name = name
        self._process = process
        self._said = said
        self._broke = broken
        self._answered = False

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Receive what there is, at least one byte.

        Raises:
            EndOfStream: The other side closed it.
            EngineAbsent: The command failed before anything came.
        """
        try:
            received = await super().receive(max_bytes)
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            if self._answered:
                raise
            code = await anyio.to_thread.run_sync(self._wait)
            raise self._broke(self._reason(code)) from None
        self._answered = True
        return received

    async def aclose(self) -> None:
        """Hang up, and wait for the command's end."""
        with anyio.CancelScope(shield=True):
            await super().aclose()
            if self._process.poll() is None:
                await anyio.to_thread.run_sync(self._wait)
            self._said.close()
        await anyio.lowlevel.checkpoint()

    def _wait(self) -> int:
        try:
            return self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _reason(self, code: int) -> str:
        self._said.seek(0)
        lines = [line.strip() for line in self._said.read(_SAID).decode("utf-8", "replace").splitlines()]
        last = next((line for line in reversed(lines) if line), "")
        return last or f"{self._name} ended with exit code {code}"
