"""Waits until an environment is ready, as Docker's HEALTHCHECK does."""

from __future__ import annotations

import anyio

from agentix.api import EnvFailed, Sandbox
from agentix.plugins.datasets.harbor.schema import Healthcheck


async def wait_healthy(sandbox: Sandbox, check: Healthcheck, *, key: str, user: str | None = None) -> None:
    """Run the check until it passes; failures in the start period do not count.

    Args:
        sandbox: Where the command runs.
        check: The command and its times.
        key: The table of task.toml, for the message.
        user: The user that the command runs as.

    Raises:
        EnvFailed: It failed as often in a row as it may.
    """
    ready_by = anyio.current_time() + check.start_period_sec
    failures = 0
    while True:
        starting = anyio.current_time() < ready_by
        result = await sandbox.exec(check.command, user=user, timeout_s=check.timeout_sec, output_limit=4096)
        if result.ok:
            return
        failures += not starting
        if failures >= check.retries:
            said = (result.error_text or result.text).strip()[-500:]
            how = f"took over {check.timeout_sec:g} s" if result.timed_out else f"exited with {result.exit_code}"
            raise EnvFailed(
                f"{key}: {check.command!r} failed {failures} times in a row; at last it {how}"
                + (f": {said}" if said else ""),
                detail="healthcheck",
            )
        await anyio.sleep(check.start_interval_sec if starting else check.interval_sec)
