"""One process, thousands of sandboxes one after the other: what it still holds at the end.

    python tests/bench/long_run.py [--provider local] [--count 5000]
    python tests/bench/long_run.py --provider docker [--count 500] [--lose 10]

Measured is this process after each tenth of the run: open descriptors, threads, children, resident memory, and objects
that the garbage collector knows. What grows with the number of sandboxes is a leak.
"""

from __future__ import annotations

import argparse
import gc
import os
import secrets
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from docker_sandboxes import _import_busybox

from agentix.api import BaseProvider, Sandbox, SandboxConfig

_COUNTS = {"local": 5000, "docker": 500}
_COLUMNS = "{:>10} {:>12} {:>8} {:>9} {:>10} {:>9}"


def held() -> tuple[int, int, int, int, int]:
    """Descriptors, threads, children, resident KiB and objects of this process."""
    gc.collect()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return (
        len(os.listdir("/proc/self/fd")),
        threading.active_count(),
        len(children),
        pages * os.sysconf("SC_PAGE_SIZE") // 1024,
        len(gc.get_objects()),
    )


async def trial(sandbox: Sandbox, number: int) -> None:
    """A little of everything."""
    assert (await sandbox.exec(f"echo {number}")).text == f"{number}\n"
    await sandbox.write_file("made", b"x" * 1000)
    assert len(await sandbox.read_file("made")) == 1000
    async with sandbox.stream("read line; echo $line") as running:
        await running.send(b"through\n")
        await running.close_input()
        assert (await running.wait()).stdout == b"through\n"


async def lose(sandbox: Sandbox) -> None:
    """Break the sandbox's stream as a network would; it has to be had again."""
    stream = (await sandbox.connect())._stream
    await anyio.aclose_forcefully(stream)
    assert (await sandbox.exec("echo on")).text == "on\n"


@asynccontextmanager
async def opened(name: str) -> AsyncIterator[tuple[BaseProvider, SandboxConfig]]:
    """The provider, and what its sandboxes are made of."""
    if name == "local":
        from agentix.providers.local import LocalProvider

        async with LocalProvider() as provider:
            yield provider, SandboxConfig()
        return
    from agentix.providers.docker import DockerProvider
    from agentix.providers.docker.endpoint import find_endpoint
    from agentix.providers.docker.engine import Engine

    engine = Engine(find_endpoint(host=None, context=None))
    image = f"agentix-bench-{secrets.token_hex(4)}:1"
    try:
        await _import_busybox(engine, image)
        async with DockerProvider() as container_provider:
            yield container_provider, SandboxConfig(image=image)
    finally:
        with anyio.CancelScope(shield=True):
            await engine.call("DELETE", f"/images/{image}", query={"force": "1"}, doing="remove the image", ok=(404,))
            await engine.aclose()


async def run(name: str, count: int, lose_every: int) -> None:
    """Make the sandboxes, and print what is held in between."""
    print(_COLUMNS.format("sandboxes", "descriptors", "threads", "children", "KiB", "objects"))
    step = max(1, count // 10)
    async with opened(name) as (provider, config):
        for number in range(1, count + 1):
            async with provider.session(config) as sandbox:
                await trial(sandbox, number)
                if lose_every and number % lose_every == 0:
                    await lose(sandbox)
            assert sandbox.unreleased is None
            if number % step == 0 or number == min(20, step):
                print(_COLUMNS.format(number, *held()), flush=True)


def main() -> None:
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--provider", choices=sorted(_COUNTS), default="local")
    parser.add_argument("--count", type=int, help="sandboxes; 5000 on local and 500 on docker by default")
    parser.add_argument("--lose", type=int, default=0, metavar="N", help="lose the stream of every N-th (docker only)")
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio")
    options = parser.parse_args()
    if options.lose and options.provider == "local":
        parser.error("a sandbox of the provider local ends with its stream: --lose is for docker")
    anyio.run(run, options.provider, options.count or _COUNTS[options.provider], options.lose, backend=options.backend)


if __name__ == "__main__":
    main()
