"""The contract of an agent: host code that drives a sandbox to solve an instance."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from agentix.errors import LimitReached
from agentix.interfaces.dataset import Dataset
from agentix.models import AgentResult, Limits, McpServer, Trial, Usage

if TYPE_CHECKING:
    from agentix.sandbox import Sandbox


@runtime_checkable
class Agent(Protocol):
    """What every agent has.

    A `solve` whose signature takes a keyword `context` is given a `RolloutContext`.
    """

    async def solve(self, sandbox: Sandbox, instance: dict[str, Any], *, model: str | None) -> AgentResult:
        """Solve one instance.

        The caller guarantees that the dataset's `setup` has run, and cancels this at the time limit; the
        work done until then is kept and scored.

        Raises:
            AgentFailed: The agent could not do its work; so is any exception that has no code of its own.
            LimitReached: A limit other than time was reached.
            EnvFailed: Something the agent needs is missing (a key, its program).
        """
        ...


@runtime_checkable
class Prepares(Protocol):
    """An agent with something to do before its clock starts."""

    async def prepare(self, sandbox: Sandbox) -> None:
        """Make the sandbox fit for the agent; a failure is ENV_FAILED (agent_setup)."""
        ...


@runtime_checkable
class Deterministic(Protocol):
    """An agent that says whether running it twice can end differently."""

    deterministic: bool


@runtime_checkable
class HasVersion(Protocol):
    """An agent that knows its version."""

    version: str


class Signal:
    """Tells agent code that it should stop: `aborted`, and why."""

    def __init__(self) -> None:
        self.reason: str | None = None

    @property
    def aborted(self) -> bool:
        """Whether the agent should return what it has."""
        return self.reason is not None

    def abort(self, reason: str) -> None:
        """Set the signal; the first reason stays."""
        if self.reason is None:
            self.reason = reason


@dataclass(kw_only=True)
class RolloutContext:
    """What an agent may know of the trial it runs in."""

    trial: Trial
    dataset: Dataset
    instruction: str
    limits: Limits
    user: str | None = None
    """The user whose rights the agent should have in the sandbox."""
    mcp_servers: tuple[McpServer, ...] = ()
    """Tool servers that the task offers, as seen from inside the sandbox."""
    skills_dir: str | None = None
    """Directory in the sandbox with skills that the task offers."""
    attempt: int = 1
    log_dir: Path | None = None
    """Directory on the host whose files are kept with the trial; `None` where nothing is kept."""
    signal: Signal = field(default_factory=Signal)
    usage: Usage = field(default_factory=Usage)
    """What was reported to `spend` so far."""
    kept: AgentResult | None = None
    """What was last handed to `keep`."""

    def keep(self, result: AgentResult) -> None:
        """Leave a result that stands where a limit stops the agent before it returns one; the last one counts."""
        self.kept = result

    def spend(self, usage: Usage) -> None:
        """Report tokens, cost, turns or tool calls as they happen.

        Raises:
            LimitReached: The sum has reached a limit; the agent should let it pass through.
        """
        self.usage = self.usage + usage
        for limit, spent in (
            ("max_tool_calls", self.usage.tool_calls),
            ("max_turns", self.usage.turns),
            ("max_tokens", self.usage.tokens),
            ("max_cost_usd", self.usage.cost_usd),
        ):
            allowed = getattr(self.limits, limit)
            if allowed is not None and spent is not None and spent > allowed:
                self.signal.abort(limit)
                raise LimitReached(limit)
