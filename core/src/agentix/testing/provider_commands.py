"""Checks of a provider: commands and files behave in its sandboxes as they do everywhere."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import anyio

from agentix.interfaces import SandboxProvider
from agentix.testing.cases import ProviderCase
from agentix.testing.checks import Checks, PromiseBroken, expect
from agentix.testing.provider_sandboxes import command_lines, opened

if TYPE_CHECKING:
    from agentix.sandbox import Sandbox

COMMANDS = Checks("provider")

_START_S = 60.0
_LIMITS_S = (0.5, 4.0, 32.0)
"""On a machine that is busy it takes longer until a command has printed its first line."""


def _marked_sleep() -> str:
    return f"sleep 3{uuid.uuid4().int % 10**9:09d}"


def _runs(sleep: str, lines: bytes) -> bool:
    return sleep.replace(" ", "\0").encode() in lines


async def _starts(sleep: str, sandbox: Sandbox) -> bool:
    # The shell's copy of itself becomes the program in its own time.
    with anyio.move_on_after(_START_S):
        while True:
            if _runs(sleep, await command_lines(sandbox)):
                return True
    return False


@COMMANDS.add()
async def commands_give_results(provider: SandboxProvider, case: ProviderCase) -> None:
    """A command's exit code and output come back; a missing executable and a signal are results too."""
    async with opened(provider, case.config) as sandbox:
        result = await sandbox.exec("echo out; echo err >&2; exit 7")
        expect(result.exit_code == 7, f"exit 7 gave {result.exit_code}")
        expect((result.stdout, result.stderr) == (b"out\n", b"err\n"), f"got {result.stdout!r}, {result.stderr!r}")
        missing = await sandbox.exec(["/agentix-check/absent"])
        expect(missing.exit_code == 127, f"a missing executable gave {missing.exit_code}, not 127")
        killed = await sandbox.exec("kill -9 $$")
        expect(killed.exit_code == 137, f"a command killed by SIGKILL gave {killed.exit_code}, not 137")
        expect(killed.signal == "SIGKILL", f"signal is {killed.signal!r}")


@COMMANDS.add()
async def bytes_stay_bytes(provider: SandboxProvider, case: ProviderCase) -> None:
    """A megabyte of any bytes goes through a command's stdin and stdout unchanged."""
    data = bytes(range(256)) * 4096
    async with opened(provider, case.config) as sandbox:
        result = await sandbox.exec(["cat"], stdin=data, output_limit=len(data))
        expect(result.stdout == data, f"{len(data)} bytes in, {len(result.stdout)} different ones out")
        expect(not result.truncated, "the output is marked as truncated")


@COMMANDS.add()
async def config_reaches_commands(provider: SandboxProvider, case: ProviderCase) -> None:
    """Commands get the config's working directory and variables, and a call's own go before them."""
    env = {"AGENTIX_CHECK_A": "config", "AGENTIX_CHECK_B": "config"}
    async with opened(provider, case.config, env={**case.config.env, **env}, workdir="/tmp") as sandbox:  # noqa: S108
        result = await sandbox.exec('echo "$AGENTIX_CHECK_A $AGENTIX_CHECK_B"; pwd', env={"AGENTIX_CHECK_B": "call"})
        values, _, directory = result.text.strip().partition("\n")
        expect(values == "config call", f"the variables are {values!r}")
        expect(directory == sandbox.workdir, f"commands start in {directory!r}, but workdir is {sandbox.workdir!r}")


@COMMANDS.add()
async def background_processes_live_on(provider: SandboxProvider, case: ProviderCase) -> None:
    """A command returns when its process exits; what it left running lives on until `kill_all`."""
    sleep = _marked_sleep()
    async with opened(provider, case.config) as sandbox:
        result = await sandbox.exec(f"{sleep} & echo done", timeout_s=20)
        expect(not result.timed_out, "exec waited for a background process")
        expect(result.stdout == b"done\n", f"got {result.stdout!r}")
        expect(await _starts(sleep, sandbox), "the background process is gone")
        await sandbox.kill_all()
        expect(not _runs(sleep, await command_lines(sandbox)), "kill_all left a process")


@COMMANDS.add()
async def a_timeout_ends_the_tree(provider: SandboxProvider, case: ProviderCase) -> None:
    """At its timeout a command ends with everything it started, and what it printed is kept."""
    sleep = _marked_sleep()
    command = f"echo before; trap '' TERM; (trap '' TERM; {sleep}) & {sleep}; {sleep}"
    async with opened(provider, case.config) as sandbox:
        for limit_s in _LIMITS_S:
            result = await sandbox.exec(command, timeout_s=limit_s)
            expect(result.timed_out, "the result is not marked as timed out")
            expect(not _runs(sleep, await command_lines(sandbox)), "processes outlived the timeout")
            if result.stdout:
                break
        expect(result.stdout == b"before\n", f"the output before the timeout is {result.stdout!r}")


@COMMANDS.add()
async def cancelling_ends_the_tree(provider: SandboxProvider, case: ProviderCase) -> None:
    """A command whose call is cancelled ends with everything it started."""
    sleep = _marked_sleep()
    async with opened(provider, case.config) as sandbox:
        with anyio.CancelScope() as scope:
            async with sandbox.stream(f"{sleep} & echo ready; {sleep}; {sleep}") as stream:
                async for _chunk in stream:
                    scope.cancel()
        expect(not _runs(sleep, await command_lines(sandbox)), "processes outlived the cancelled call")


@COMMANDS.add()
async def streams_carry_both_ways(provider: SandboxProvider, case: ProviderCase) -> None:
    """`stream` gives output as it comes and takes input while the command runs."""
    async with opened(provider, case.config) as sandbox, sandbox.stream(["cat"]) as stream:
        received = b""
        await stream.send(b"one")
        async for chunk in stream:
            received += chunk.data
            if received == b"one":
                await stream.send(b"two")
                await stream.close_input()
        expect(received == b"onetwo", f"got {received!r}")
        expect(stream.result.exit_code == 0, f"the exit code is {stream.result.exit_code}")


@COMMANDS.add()
async def files_are_read_and_written(provider: SandboxProvider, case: ProviderCase) -> None:
    """`write_file` makes parents and sets the mode, `read_file` gives the same bytes, an absent file is an error."""
    data = os.urandom(300_000)
    async with opened(provider, case.config) as sandbox:
        path = f"{sandbox.workdir.rstrip('/')}/agentix-check/deep/file"
        await sandbox.write_file(path, data, mode=0o755)
        expect(await sandbox.read_file(path) == data, "the file has other bytes than were written")
        expect((await sandbox.exec(["test", "-x", path])).ok, "mode 0o755 was not kept")
        await sandbox.remove(f"{sandbox.workdir.rstrip('/')}/agentix-check")
        try:
            await sandbox.read_file(path)
        except FileNotFoundError:
            return
        raise PromiseBroken("reading a removed file gave no FileNotFoundError")


@COMMANDS.add()
async def trees_go_in_and_out(provider: SandboxProvider, case: ProviderCase) -> None:
    """`upload` and `download` carry a tree with its modes and links."""
    with TemporaryDirectory(prefix="agentix-check-") as scratch:
        source, target = Path(scratch, "in"), Path(scratch, "out")
        (source / "deep").mkdir(parents=True)
        (source / "deep" / "run").write_bytes(b"#!/bin/sh\n")
        (source / "deep" / "run").chmod(0o755)
        (source / "link").symlink_to("deep/run")
        async with opened(provider, case.config) as sandbox:
            remote = f"{sandbox.workdir.rstrip('/')}/agentix-check"
            await sandbox.upload(source, remote)
            expect((await sandbox.exec(["test", "-x", f"{remote}/deep/run"])).ok, "the run bit was lost on the way in")
            report = await sandbox.download(remote, target)
        expect(not report.refused, f"refused on the way out: {report.refused}")
        expect((target / "deep" / "run").read_bytes() == b"#!/bin/sh\n", "the file came out different")
        expect((target / "deep" / "run").stat().st_mode & 0o100, "the run bit was lost on the way out")
        expect((target / "link").is_symlink(), "the link came out as something else")


@COMMANDS.add()
async def functions_are_called(provider: SandboxProvider, case: ProviderCase) -> None:
    """`remote` runs a Python function in the sandbox, whatever its image holds, and ends it at its timeout."""
    async with opened(provider, case.config) as sandbox:
        directory = await sandbox.remote(os.getcwd)
        expect(directory == sandbox.workdir, f"functions run in {directory!r}, but workdir is {sandbox.workdir!r}")
        try:
            await sandbox.call(time.sleep, (600,), timeout_s=0.5)
        except TimeoutError:
            return
        raise PromiseBroken("a call went on after its timeout")
