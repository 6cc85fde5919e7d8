"""A service that runs beside a sandbox, as far as its provider reaches into it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentix.interfaces.provider import ReachesServices
from agentix.models import ExecResult

_OUTPUT = 1 << 20


class Service:
    """Runs commands and reads files in one service; none of agentix's own runtime is there.

    Args:
        provider: Its provider.
        sandbox_id: The sandbox that it runs beside.
        name: Its name in the compose file.
    """

    def __init__(self, provider: ReachesServices, *, sandbox_id: str, name: str) -> None:
        self.name = name
        self._provider = provider
        self._sandbox_id = sandbox_id

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        user: str | None = None,
        timeout_s: float | None = None,
        output_limit: int = _OUTPUT,
    ) -> ExecResult:
        """Run a command: a string by the service's own `sh`, or an argv list.

        Args:
            command: What to run.
            user: Who runs it; by default the service's own user.
            timeout_s: Seconds after which it is waited for no more. It is not ended: only the sandbox's end does that.
            output_limit: Bytes of stdout and of stderr that are kept each, from the start.

        Raises:
            EnvFailed: There is no such service, or it does not run.
            HostError: The engine failed.
        """
        return await self._provider.service_exec(
            self._sandbox_id, self.name, command, user=user, timeout_s=timeout_s, output_limit=output_limit
        )

    async def download(self, remote: str, local: Path) -> Sequence[str]:
        """Copy a file or a tree to the host; returns what was left out, and why.

        Raises:
            FileNotFoundError: There is no such path.
            EnvFailed: There is no such service.
            HostError: The engine failed.
        """
        return await self._provider.service_download(self._sandbox_id, self.name, remote, local)
