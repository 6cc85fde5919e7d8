"""Sandboxes of the provider `local`, each with one command, against a bare loop of bubblewrap and an interpreter."""

from __future__ import annotations

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import anyio
from rates import rate
from table import Row, show

from agentix.api import RuntimeMount, SandboxConfig, base_runtime
from agentix.providers.local import LocalProvider
from agentix.providers.local.arguments import Root, root_arguments
from agentix.providers.local.bubblewrap import find_bubblewrap
from agentix.providers.local.etc import prepare_etc

COUNT = 400
NOTHING = ""
ONE_COMMAND = "import posix; posix.waitpid(posix.posix_spawn('/usr/bin/true', ['true'], {}), 0)"
CONCURRENCY = 8  # what agentix-run does by default
ROUNDS = 6


def rows() -> list[Row]:
    """The rows of this benchmark."""
    return anyio.run(_rows)


async def _rows() -> list[Row]:
    runtime = await base_runtime()
    commands = {program: _bare_command(runtime, program) for program in (NOTHING, ONE_COMMAND)}

    async with LocalProvider() as provider:

        async def one() -> None:
            async with provider.session(SandboxConfig()) as sandbox:
                result = await sandbox.exec(["true"])
                assert result.ok, result

        await one()
        ours = []
        theirs: dict[str, list[float]] = {program: [] for program in commands}
        # In turns, so that whatever else the machine does falls on all.
        for _ in range(ROUNDS):
            for program, command in commands.items():
                theirs[program].append(_bare_rate(command, COUNT // ROUNDS))
            ours.append(await rate(one, COUNT // ROUNDS, width=CONCURRENCY))
        latencies = await _exec_latencies(provider)
    return [
        Row(
            name=f"sandbox with one command, {CONCURRENCY} at a time",
            ours=max(ours),
            unit="/s",
            target=50,
            bare=max(theirs[NOTHING]),
            ratio_target=0.7,
        ),
        Row(
            name="the same, against an interpreter that starts one command too",
            ours=max(ours),
            unit="/s",
            bare=max(theirs[ONE_COMMAND]),
        ),
        Row(
            name="one more command in an open sandbox, p50",
            ours=latencies[len(latencies) // 2] * 1000,
            unit="ms",
            target=2,
            better="less",
        ),
        Row(
            name="one more command in an open sandbox, p99",
            ours=latencies[len(latencies) * 99 // 100] * 1000,
            unit="ms",
            better="less",
        ),
    ]


def _bare_command(runtime: RuntimeMount, program: str) -> list[str]:
    """Bubblewrap with the same root file system and namespaces, and an interpreter with a program."""
    etc = prepare_etc()
    return [
        *(str(find_bubblewrap(chosen=None).path), "--unshare-all", "--unshare-user", "--uid", "0", "--gid", "0"),
        *("--as-pid-1", "--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox"),
        *root_arguments(Root(etc=etc, runtime=runtime, storage_bytes=2 << 30), files={}),
        *(*runtime.argv, "-c", program),
    ]


def _bare_rate(command: list[str], count: int) -> float:
    def once() -> None:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)

    began = time.perf_counter()
    with ThreadPoolExecutor(CONCURRENCY) as threads:
        for future in [threads.submit(once) for _ in range(count)]:
            future.result()
    return count / (time.perf_counter() - began)


async def _exec_latencies(provider: LocalProvider) -> list[float]:
    latencies = []
    async with provider.session(SandboxConfig()) as sandbox:
        for _ in range(500):
            began = time.perf_counter()
            await sandbox.exec(["true"])
            latencies.append(time.perf_counter() - began)
    return sorted(latencies)


if __name__ == "__main__":
    show(rows())
