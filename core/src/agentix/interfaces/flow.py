"""What a dataset that drives its own flow composes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agentix.models import AgentResult, SandboxConfig, Trial

if TYPE_CHECKING:
    from agentix.sandbox import Sandbox


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """What an agent has done in an attempt whose scoring failed, as the dataset has kept it."""

    directory: Path
    """The `log_dir` of that attempt."""
    data: Mapping[str, Any]
    """What was given to `Flow.keep`."""


class Flow(Protocol):
    """The steps of one attempt, each with its limit, its timing and its attribution."""

    trial: Trial
    earlier: Earlier | None
    """What is only to be scored again: there is no agent in this attempt. `None` for all datasets that never `keep`."""
    log_dir: Path | None
    """Directory on the host whose files are kept with the trial; `None` where nothing is kept."""

    @property
    def patch(self) -> str:
        """What the agent has changed so far; empty before the first `solve`."""
        ...

    def note(self, message: str, /) -> None:
        """Tell the reader of the result something that does not change it."""
        ...

    async def setup(self) -> Sandbox:
        """Create the agent's sandbox and run the dataset's `setup` in it."""
        ...

    async def solve(
        self,
        sandbox: Sandbox,
        *,
        instruction: str | None = None,
        user: str | None = None,
        timeout_s: float | None = None,
        name: str | None = None,
    ) -> AgentResult:
        """Run the agent once.

        An agent that fails or reaches a limit is a result too (`ended` tells which): its work stays to be
        scored, and its processes are dead when this returns.

        Args:
            sandbox: The one that `setup` returned.
            instruction: What to ask for; the dataset's instruction by default.
            user: The user that the agent's commands run as.
            timeout_s: The task's own limit, to which the run's timeout rule is applied.
            name: Distinguishes several calls, such as the steps of a multi-step task.
        """
        ...

    async def collect(self, sandbox: Sandbox, paths: Sequence[str], *, into: str = "artifacts") -> list[Path]:
        """Copy files and trees out of a sandbox into `log_dir / into`.

        A path that does not exist is left out; what is refused is noted. Nothing is copied where `log_dir` is None.

        Returns:
            Where the copies lie on the host, in the order of those paths that exist.
        """
        ...

    def keep(self, data: Mapping[str, Any], /) -> None:
        """Note what scoring takes of what the agent has done, once nothing else of its sandbox is needed.

        Where scoring then fails, another attempt need not run the agent again: it finds this as `earlier`.
        Nothing is noted where `log_dir` is None.

        Args:
            data: What JSON can hold, such as which files below `log_dir` are the answer.
        """
        ...

    async def close(self, sandbox: Sandbox) -> None:
        """Delete a sandbox before the attempt ends; confirmed when this returns."""
        ...

    def prepare_sandbox(self, config: SandboxConfig | None = None) -> None:
        """Begin to make the sandbox that `fresh_sandbox(config)` will be asked for, such as before `solve`.

        Nothing happens where the run has no room for it. What is not asked for in the end is deleted.
        """
        ...

    def fresh_sandbox(self, config: SandboxConfig | None = None) -> AbstractAsyncContextManager[Sandbox]:
        """A new sandbox, from the dataset's config by default."""
        ...

    async def score(
        self,
        scorer: Callable[[], Awaitable[dict[str, Any]]],
        *,
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """Run a scorer within its limit and check what it returns.

        Args:
            scorer: Grades the answer; see `Dataset.score` for what it returns and raises.
            timeout_s: The task's own limit, to which the run's timeout rule is applied.

        Raises:
            VerifierError: There is no valid reward.
        """
        ...
