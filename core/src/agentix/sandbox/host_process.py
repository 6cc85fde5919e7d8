"""Sandboxes that are a plain child process of this one, without isolation: for trusted code and for fakes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, ClassVar
from uuid import uuid4

import anyio
import anyio.to_thread
from anyio.abc import ByteStream

import agentix.runtime
from agentix.errors import HostError, SandboxGone, Unsupported
from agentix.models import RuntimeMount, SandboxInfo
from agentix.sandbox.provider import BaseProvider
from agentix.sandbox.socket_stream import SocketStream

if TYPE_CHECKING:
    from agentix.models import SandboxConfig

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_REFUSED = (
    *("cpus", "memory_mb", "storage_mb", "pids", "user"),
    *("platform", "mounts", "allowed_hosts", "gpus", "compose"),
)
_WORK, _TEMPORARY = "work", "tmp"
_EXIT_S = 8.0
_LOG, _LOG_TAIL = 1 << 20, 4000


@dataclass
class _Entry:
    info: SandboxInfo
    directory: Path
    """Holds all that belongs to it: the working directory and the one for temporary files."""
    process: subprocess.Popen[bytes] | None = None
    log: IO[bytes] | None = None


class HostProcessProvider(BaseProvider):
    """Gives each sandbox private directories and a runtime server that is a child of this process.

    The server is started at the first call, so that a sandbox which is never used costs no process. Commands see
    the host's files with this user's rights, but none of its environment.
    """

    name = "host-process"
    connects_lazily = True
    mounts = False
    contract_waivers: ClassVar[Mapping[str, str]] = {
        "refuses_images": "the image is left aside, so that trusted code runs on any dataset",
        "refuses_image_builds": "the image is left aside, so that trusted code runs on any dataset",
        "refuses_public_network": "a plain process always has the host's network",
    }
    """Contract checks that this provider does not pass, and why."""

    def __init__(self) -> None:
        self._sandboxes: dict[str, _Entry] = {}

    async def runtime(self) -> RuntimeMount:
        """This interpreter and the installed package, in place."""
        source = Path(agentix.runtime.__file__).parent.parent.parent
        start = f"import sys; sys.path.insert(0, {str(source)!r}); from agentix.runtime.start import main; main()"
        return RuntimeMount(path=source, digest="", argv=(sys.executable, "-I", "-S", "-c", start))

    async def create(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
        """Make a name for it; directory and process come with the first call."""
        self.refuse(config)
        sandbox_id = f"{self.name}-{uuid4().hex[:12]}"
        directory = Path(tempfile.gettempdir()) / f"agentix-{sandbox_id}"
        workdir, temporary = str(directory / _WORK), str(directory / _TEMPORARY)
        info = SandboxInfo(
            id=sandbox_id,
            provider=self.name,
            labels=dict(config.labels),
            workdir=workdir,
            temporary=temporary,
            env={"PATH": _PATH, "HOME": workdir, "TMPDIR": temporary, "LANG": "C.UTF-8"},
            created_at=time.time(),
        )
        self._sandboxes[sandbox_id] = _Entry(info, directory)
        return info

    def refuse(self, config: SandboxConfig) -> None:
        """Refuse what a plain process cannot have; override it to allow more.

        Raises:
            Unsupported: The config asks for it; the message names the field.
        """
        for field in _REFUSED:
            if getattr(config, field):
                raise Unsupported(f"provider {self.name} runs a plain process and cannot honour {field!r}")

    async def dial(self, sandbox_id: str) -> ByteStream:
        """Start the server and give the stream to it."""
        entry = self._sandboxes.get(sandbox_id)
        if entry is None:
            raise SandboxGone(f"there is no sandbox {sandbox_id}")
        if entry.process is not None:
            raise HostError(f"sandbox {sandbox_id} has its only stream already")
        runtime = await self.runtime()
        with ExitStack() as undo:
            ours, theirs = socket.socketpair()
            undo.callback(ours.close)
            with theirs:
                log = undo.enter_context(tempfile.TemporaryFile())
                for directory in (entry.directory, entry.directory / _WORK, entry.directory / _TEMPORARY):
                    directory.mkdir(mode=0o700)
                    undo.callback(directory.rmdir)
                # Popen returns once the program is executed, about a millisecond later; a thread would cost more.
                entry.process = subprocess.Popen(  # noqa: ASYNC220
                    [*runtime.argv, "--fd", str(theirs.fileno()), "--remove", str(entry.directory)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    cwd=entry.directory / _WORK,
                    env={"PATH": _PATH, "LANG": "C.UTF-8"},
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            entry.log = log
            undo.pop_all()
        return SocketStream(ours)

    async def explain(self, sandbox_id: str) -> SandboxGone:
        """Add how the server ended."""
        entry = self._sandboxes.get(sandbox_id)
        if entry is None or entry.process is None:
            return await super().explain(sandbox_id)
        code = await _exit_code(entry.process, 2.0)
        ended = "hung up" if code is None else f"ended with exit code {code}"
        message = f"sandbox {sandbox_id} of {self.name} is gone: its runtime {ended}"
        return SandboxGone(message, exit_code=code, log_tail=_tail(entry.log))

    async def delete(self, sandbox_id: str) -> None:
        """End the server with all that it started, and remove the directory."""
        entry = self._sandboxes.get(sandbox_id)
        if entry is None:
            return
        if entry.process is not None and await _exit_code(entry.process, _EXIT_S) is None:
            entry.process.kill()
            await _exit_code(entry.process, _EXIT_S)
        if entry.log is not None:
            entry.log.close()
        if not _remove_empty(entry.directory) and not await anyio.to_thread.run_sync(_remove, entry.directory):
            raise HostError(f"the directory {entry.directory} of sandbox {sandbox_id} could not be removed")
        del self._sandboxes[sandbox_id]

    async def list(self, labels: Mapping[str, str]) -> list[SandboxInfo]:
        """The sandboxes of this provider object."""
        wanted = dict(labels).items()
        return [entry.info for entry in self._sandboxes.values() if wanted <= dict(entry.info.labels).items()]


def _tail(log: IO[bytes] | None) -> str:
    if log is None or log.closed:
        return ""
    log.seek(0)
    return log.read(_LOG)[-_LOG_TAIL:].decode("utf-8", "replace")


def _remove_empty(directory: Path) -> bool:
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _remove(directory: Path) -> bool:
    shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():
        # What is left are directories that do not let their own user remove anything.
        for path, _, _ in os.walk(directory):
            Path(path).chmod(0o700)
        shutil.rmtree(directory, ignore_errors=True)
    return not directory.exists()


async def _exit_code(process: subprocess.Popen[bytes], within_s: float) -> int | None:
    """Wait for a child without a thread."""
    if process.poll() is not None:
        return process.returncode
    with anyio.move_on_after(within_s):
        with suppress(ProcessLookupError):
            fd = os.pidfd_open(process.pid)
            try:
                await anyio.wait_readable(fd)
            finally:
                os.close(fd)
    return process.poll()
