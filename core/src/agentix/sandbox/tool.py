"""Run a program of this machine that a transport drives: `hf`, `rclone`, `git`."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
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
HUB_ENV = (
    *("HF_TOKEN", "HF_TOKEN_PATH", "HF_HOME", "HF_HUB_CACHE", "HF_ENDPOINT", "XDG_CACHE_HOME"),
    *PROXY_ENV,
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)
"""What `hf` may see of this machine's environment: who it is, where the hub is, and how it gets there."""
HUB_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_UPDATE_CHECK": "1",
        "NO_COLOR": "1",
    }
)
"""What `hf` is told, so that it says nothing but what somebody reads."""
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
    where = await anyio.Path(cwd or ".").absolute()
    async with HostProcessProvider().session(SandboxConfig()) as sandbox:
        return await sandbox.exec(
            [str(word) for word in argv],
            stdin=stdin,
            cwd=str(where),
            env=_environment(host_env, env),
            timeout_s=timeout_s,
            output_limit=output_limit,
        )


def ask_tool(
    argv: Sequence[str | Path],
    *,
    host_env: Iterable[str] = (),
    env: Mapping[str, str] = _NOTHING,
    cwd: Path | None = None,
    timeout_s: float = 30.0,
) -> ExecResult:
    """Ask a program something that this machine knows by itself, and wait for it; it has no terminal either.

    It is for what is looked at before anything runs, and for answers that come at once.

    Args:
        argv: As for `run_tool`.
        host_env: As for `run_tool`.
        env: As for `run_tool`.
        cwd: As for `run_tool`.
        timeout_s: Seconds that it may take; then it and what it has started are killed.

    Returns:
        How it ended; exit code 127 where there is no such program.

    Raises:
        FileNotFoundError: There is no such `cwd`.
    """
    begun = time.monotonic()
    try:
        process = subprocess.Popen(
            [str(word) for word in argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=_environment(host_env, env),
            start_new_session=True,
        )
    except FileNotFoundError as error:
        if cwd is not None and not cwd.exists():
            raise
        return ExecResult(exit_code=127, stderr=str(error).encode())
    timed_out = False
    with process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            timed_out = True
            out, err = process.communicate()
    ended = process.returncode
    return ExecResult(
        exit_code=ended if ended >= 0 else 128 - ended,
        signal=signal.Signals(-ended).name if ended < 0 else None,
        stdout=out,
        stderr=err,
        timed_out=timed_out,
        duration_s=time.monotonic() - begun,
    )


def _environment(host_env: Iterable[str], env: Mapping[str, str]) -> dict[str, str]:
    seen = {name: os.environ[name] for name in sorted({*ALWAYS, *host_env}) if name in os.environ}
    return {**seen, "GIT_TERMINAL_PROMPT": "0", **env}
