"""Runs the Harbor CLI to its end, or ends it with everything that it has started."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from agentix.api import ExecResult, HostProcessProvider, SandboxConfig
from agentix.plugins.datasets.harbor.executor_log import TrialLog

if TYPE_CHECKING:
    from agentix.api import CommandStream, Sandbox

GRACE_S = 30.0
"""For Harbor to remove its containers, once it was asked to end."""
NUMBER_FILE = "harbor.pid"
_KILL_S = 20.0
_REMOVE_S = 60.0
_SAID = 64 << 10
# Its number is known before it runs, and no shell is left between it and us.
_NUMBERED = 'echo $$ > "$0" && exec "$@"'


@dataclass(frozen=True, kw_only=True)
class HarborEnded:
    """How the Harbor CLI ended."""

    exit_code: int | None
    """`None` where it had to be killed."""
    signal: str | None
    timed_out: bool
    said: str
    """The end of what it printed."""
    unreleased: tuple[str, ...] = ()
    """Compose projects that could not be removed."""

    def describe(self) -> str:
        """How it ended, in words."""
        if self.timed_out:
            return "was stopped at its time limit"
        if self.signal is not None:
            return f"was ended by {self.signal}"
        return f"ended with exit status {self.exit_code}"


async def run_harbor(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    log: Path,
    job: Path,
    secrets: Iterable[str],
    timeout_s: float | None,
    cleans: bool,
) -> HarborEnded:
    """Run it.

    At the time limit and when this is cancelled, Harbor is asked to end, so that it removes its containers; what still
    runs after the grace is killed, whatever session or process group it has put itself into, and containers that are
    left are removed.

    Args:
        argv: Program and arguments.
        env: Its whole environment.
        cwd: Where it starts, and where relative paths among the arguments lead from.
        log: Where what it prints is kept; its process number is kept beside it.
        job: The directory that it makes for the job.
        secrets: Values that are kept out of the log.
        timeout_s: Seconds for all of it.
        cleans: Whether its containers are those of this machine's engine, so that what is left can be removed.

    Raises:
        OSError: It cannot be started.
        HostError: What ran it was lost.
    """
    running = _Running(
        argv, env=env, cwd=cwd, number=log.with_name(NUMBER_FILE), job=job, cleans=cleans, timeout_s=timeout_s
    )
    with TrialLog(log, secrets=secrets) as kept:
        # What is raised inside is raised again outside of the group, which would wrap it.
        async with anyio.create_task_group() as group:
            group.start_soon(running.run, kept)
            try:
                await running.over.wait()
            finally:
                running.stop()
        if running.error is not None:
            raise running.error
    result = running.result
    return HarborEnded(
        exit_code=None if result is None else result.exit_code,
        signal=None if result is None else result.signal,
        timed_out=running.timed_out,
        said=kept.tail,
        unreleased=running.unreleased,
    )


class _Running:
    """One `harbor run`, in a task that a cancellation reaches by `stop` only: what ends it has to be able to work."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        number: Path,
        job: Path,
        cleans: bool,
        timeout_s: float | None,
    ) -> None:
        self.over = anyio.Event()
        self.result: ExecResult | None = None
        self.timed_out = False
        self.unreleased: tuple[str, ...] = ()
        self.error: Exception | None = None
        self._number = number
        self._words = ["/bin/sh", "-c", _NUMBERED, str(self._number), *argv]
        self._env = env
        self._cwd = cwd
        self._job = job
        self._cleans = cleans
        self._timeout_s = timeout_s
        self._following = anyio.CancelScope()
        self._stopped = False

    def stop(self) -> None:
        """Ask it to end, if it has not."""
        self._stopped = True
        self._following.cancel()

    async def run(self, log: TrialLog) -> None:
        """Run it, and clean up after it."""
        with anyio.CancelScope(shield=True):
            try:
                async with HostProcessProvider().session(SandboxConfig()) as sandbox:
                    await self._run(sandbox, log)
                    if self._cleans and (self.result is None or self.timed_out or self.result.exit_code != 0):
                        self.unreleased = await _remove_left(sandbox, self._job, self._env, self._cwd)
            except Exception as error:
                self.error = error
            finally:
                self.over.set()

    async def _run(self, sandbox: Sandbox, log: TrialLog) -> None:
        async with sandbox.stream(self._words, cwd=self._cwd, env=self._env, output_limit=_SAID) as running:
            await running.close_input()
            if self._timeout_s is not None:
                self._following.deadline = anyio.current_time() + self._timeout_s
            with self._following:
                await _follow(running, log)
                self.result = running.result
            if self.result is None:
                self.timed_out = not self._stopped
                self.result = await _end(running, log, self._number, self._job.name)


async def _follow(running: CommandStream, log: TrialLog) -> None:
    async for piece in running:
        log.write(piece.data)


async def _end(running: CommandStream, log: TrialLog, number: Path, job: str) -> ExecResult | None:
    with anyio.move_on_after(GRACE_S):
        if _ask_to_end(number, job):
            await _follow(running, log)
            return running.result
    await running.kill()
    with anyio.move_on_after(_KILL_S):
        await _follow(running, log)
        return running.result
    return None


def _ask_to_end(number: Path, job: str) -> bool:
    """Signal Harbor alone: what it has started is what it cleans up with."""
    try:
        pid = int(number.read_text())
        fd = os.pidfd_open(pid)
    except (OSError, ValueError):
        return False
    try:
        # The number may be another process's by now; the job's name is nobody else's.
        if job.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes():
            return False
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, signal.SIGTERM)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


async def _remove_left(sandbox: Sandbox, job: Path, env: Mapping[str, str], cwd: Path) -> tuple[str, ...]:
    """Remove the containers, networks and volumes of the job's trials; gives what could not be removed."""
    trials = await anyio.to_thread.run_sync(_trials, job)
    if not trials:
        return ()
    with anyio.move_on_after(_REMOVE_S):
        for _ in range(2):
            projects = await _projects(sandbox, trials, env, cwd)
            if not projects:
                return ()
            for project in projects:
                words = ["docker", "compose", "-p", project, "down", "-v", "--remove-orphans", "-t", "0"]
                await sandbox.exec(words, cwd=cwd, env=env, timeout_s=_REMOVE_S)
                await _remove_images(sandbox, project, env, cwd)
        return tuple(await _projects(sandbox, trials, env, cwd))
    return tuple(trials)


async def _remove_images(sandbox: Sandbox, project: str, env: Mapping[str, str], cwd: Path) -> None:
    """Those that were built for this project alone; compose finds them only by the files that it was started with."""
    words = ["docker", "image", "ls", "-q", "--filter", f"reference={project}-*"]
    listed = await sandbox.exec(words, cwd=cwd, env=env, timeout_s=_REMOVE_S)
    if listed.ok and (found := listed.text.split()):
        await sandbox.exec(["docker", "image", "rm", "-f", *found], cwd=cwd, env=env, timeout_s=_REMOVE_S)


def _trials(job: Path) -> list[str]:
    return [project_name(path.name) for path in job.iterdir() if path.is_dir()] if job.is_dir() else []


async def _projects(sandbox: Sandbox, trials: Sequence[str], env: Mapping[str, str], cwd: Path) -> list[str]:
    label = "com.docker.compose.project"
    found: set[str] = set()
    for kind in (["ps", "-a"], ["network", "ls"], ["volume", "ls"]):
        words = ["docker", *kind, "--format", f'{{{{.Label "{label}"}}}}', "--filter", f"label={label}"]
        result = await sandbox.exec(words, cwd=cwd, env=env, timeout_s=_REMOVE_S)
        found |= {line.strip() for line in result.text.splitlines()}
    # A separate verifier has a project of its own, called after the trial.
    return sorted(name for name in found if any(name == trial or name.startswith(f"{trial}__") for trial in trials))


def project_name(trial: str) -> str:
    """The compose project of a Harbor trial."""
    name = trial.lower()
    name = name if name[:1].isascii() and name[:1].isalnum() else f"0{name}"
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in name)
