"""A patch of a tree of 2,000 files in a sandbox of the provider `local`, over the two listings that it rests on."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
from table import Row, show

from agentix.api import Sandbox, SandboxConfig
from agentix.patch import BlobStore, capture_base
from agentix.providers.local import LocalProvider

FOLDERS, FILES = 40, 50
CHANGED = 20
ROUNDS = 15
FILL = f"""
for folder in range({FOLDERS}):
    os.makedirs(f"tree/{{folder}}")
    for file in range({FILES}):
        open(f"tree/{{folder}}/{{file}}", "w").write(f"{{folder}} {{file}}\\n" * 50)
"""


def rows() -> list[Row]:
    """The rows of this benchmark."""
    return anyio.run(_rows)


async def _rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        async with LocalProvider() as provider, provider.session(SandboxConfig()) as sandbox:
            await sandbox.exec(["python3", "-c", f"import os\n{FILL}"])
            return await _measure(sandbox, BlobStore(Path(folder)))


async def _measure(sandbox: Sandbox, store: BlobStore) -> list[Row]:
    root = f"{sandbox.workdir}/tree"

    async def listings() -> None:
        await sandbox.tree(root)
        await sandbox.tree(root)

    async def unchanged() -> None:
        base = await capture_base(sandbox, root, store=store)
        if (await base.diff(sandbox)).data:
            raise RuntimeError("nothing has changed, and yet there is a patch")

    async def changed() -> None:
        if (await base.diff(sandbox)).text.count("diff --git ") != CHANGED:
            raise RuntimeError("not every changed file is in the patch")

    base = await capture_base(sandbox, root, store=store)
    bare, ours = await _fastest(listings, unchanged)
    await sandbox.exec(f"for n in $(seq 0 {CHANGED - 1}); do echo more >> tree/$n/7; done")
    (diff,) = await _fastest(changed)
    size = f"{FOLDERS * FILES:,} files"
    return [
        Row(name=f"base and patch, {size}, none changed", ours=ours * 1000, unit="ms", better="less", bare=bare * 1000),
        Row(name=f"patch, {size}, {CHANGED} changed", ours=diff * 1000, unit="ms", better="less"),
    ]


async def _fastest(*functions: Callable[[], Awaitable[None]]) -> list[float]:
    """The least seconds of each, taken in turns."""
    least = [float("inf")] * len(functions)
    for _ in range(ROUNDS):
        for number, function in enumerate(functions):
            began = time.perf_counter()
            await function()
            least[number] = min(least[number], time.perf_counter() - began)
    return least


if __name__ == "__main__":
    show(rows())
