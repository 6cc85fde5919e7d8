"""A mix of what a sandbox does at once, for tests of what must not change its results.

It is found because the pytest settings put this folder on the path of modules.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from agentix.sandbox import Sandbox

More = Callable[[Sandbox, dict[str, Any]], Awaitable[None]]


async def mixed_work(
    sandbox: Sandbox, folder: Path, content: bytes, *, commands: int, files: int, lines: int, more: More | None = None
) -> dict[str, Any]:
    """What comes of commands, streams and files that all are under way at once.

    Args:
        sandbox: Where.
        folder: An empty place on the host.
        content: What is sent and copied.
        commands: How many run, one after another.
        files: How many are copied, as a tree.
        lines: How many a stream gives.
        more: What else is done meanwhile; it adds what came of it.
    """
    found: dict[str, Any] = {}
    (folder / "up").mkdir(parents=True)
    for number in range(files):
        (folder / "up" / f"file-{number}").write_bytes(content[number * 1000 : number * 31_000])

    async def run_commands() -> None:
        for number in range(commands):
            # It would tell if it ran twice.
            result = await sandbox.exec(f"echo {number} >> counted; echo {number}; exit {number}")
            found[f"exec-{number}"] = (result.exit_code, result.stdout, result.truncated)
        found["counted"] = await sandbox.read_file("counted")

    async def echo() -> None:
        result = await sandbox.exec(["cat"], stdin=content, output_limit=len(content))
        found["echo"] = (result.exit_code, hashlib.sha256(result.stdout).digest())

    async def stream() -> None:
        pieces = hashlib.sha256()
        async with sandbox.stream(f"seq 1 {lines}; cat; exit 7") as running:
            await running.send(content[:200_000])
            await running.close_input()
            async for chunk in running:
                pieces.update(chunk.data)
        found["stream"] = (running.result.exit_code, pieces.digest(), running.result.stdout_bytes)

    async def copy() -> None:
        await sandbox.write_file("one", content)
        found["one"] = hashlib.sha256(await sandbox.read_file("one")).digest()
        await sandbox.upload(folder / "up", "tree")
        report = await sandbox.download("tree", folder / "down")
        found["refused"] = report.refused
        found["tree"] = {path.name: path.read_bytes() for path in sorted((folder / "down").iterdir())}

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for part in (run_commands, echo, stream, copy):
                group.start_soon(part)
            if more is not None:
                group.start_soon(more, sandbox, found)
    return found
