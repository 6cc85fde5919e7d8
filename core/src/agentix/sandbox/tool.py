"""Run a program of this machine that a transport drives: `hf`, `rclone`, `git`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import anyio

from agentix.models import ExecResult, SandboxConfig
from agentix.sandbox.host_process import HostProcessProvider

ALWAYS = ("HOME", "PATH", "LANG", "TERM")
"""What every tool sees of this machine's environment."""
PROXY_ENV = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
)
"""The variables by which a tool that reaches the network finds its way there."""
_NOTHING: Mapping[str, str] = MappingProxyType({})


async def run_tool(
    argv: Sequence[str | Path],
    *,
    host_env: Iterable[str] = (),
    env: Mapping[str, str] = _NOTHING,
    cwd: Path | None = None,
    stdin: bytes = b"",
    timeout_s: float | None = None,
    output_limit: int = 1 << 20,
) -> ExecResult:
    """Run a program to its end; it has no terminal, so that it cannot ask anybody anything.

    At the timeout, and when this is cancelled, everything that it has started is killed; nothing outlives this process.

    Args:
        argv: The program, which is looked for on the PATH of this process, and its arguments.
        host_env: Variables of this process that it sees besides HOME, PATH, LANG and TERM.
        env: Its own variables, which win.
        cwd: Where it starts; this process's directory by default.
        stdin: What it reads.
        timeout_s: Seconds that it may take.
        output_limit: Bytes of each stream that are kept: the head and the tail.

    Returns:
        How it ended; exit code 127 where there is no such program.

    Raises:
        HostError: What runs it was lost.
    """
    names = {*ALWAYS, *host_env}
    seen = {name: os.environ[name] for name in sorted(names) if name in os.environ}
    where = await anyio.Path(cwd or ".").absolute()
    async with HostProcessProvider().session(SandboxConfig()) as sandbox:
        return await sandbox.exec(
            [str(word) for word in argv],
            stdin=stdin,
            cwd=str(where),
            env={**seen, "GIT_TERMINAL_PROMPT": "0", **env},
            timeout_s=timeout_s,
            output_limit=output_limit,
        )
