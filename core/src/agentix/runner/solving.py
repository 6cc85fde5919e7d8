"""One run of the agent, whatever ended it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import anyio

from agentix.errors import AgentFailed, AgentTimeout, LimitReached, SandboxGone, TrialError
from agentix.interfaces import RolloutContext, Signal
from agentix.models import AgentResult, Ended, FailureCode, Limits, Trial, Usage
from agentix.runner.boundary import boundary
from agentix.runner.phases import Phases
from agentix.runner.roles import Roles

if TYPE_CHECKING:
    from agentix.sandbox import Sandbox

_NO_USAGE = Usage()
_SAID_CHARS = 200
_ENDINGS: frozenset[str] = frozenset(get_args(Ended))


class DeadlineSignal(Signal):
    """A signal that is aborted from a point in time on, so that an agent in a thread can see it too."""

    def __init__(self, seconds: float | None) -> None:
        self._deadline = None if seconds is None else time.monotonic() + seconds
        super().__init__()

    @property
    def aborted(self) -> bool:
        """Whether the agent should return what it has."""
        if self.reason is None and self._deadline is not None and time.monotonic() >= self._deadline:
            self.reason = "timeout"
        return self.reason is not None


@dataclass(frozen=True, kw_only=True)
class Solved:
    """How one run of the agent ended."""

    result: AgentResult
    ended: Ended
    error: TrialError | None = None
    """What to report where there is no reward."""
    stopped: bool = False
    """Whether it did not return by itself, so that its processes may still run."""
    fatal: bool = False
    """Whether the error is not the agent's, so that there is nothing to score."""


async def run_agent(
    roles: Roles,
    sandbox: Sandbox,
    instance: dict[str, Any],
    *,
    trial: Trial,
    phases: Phases,
    instruction: str | None,
    user: str | None,
    timeout_s: float | None,
    attempt: int,
    log_dir: Path | None,
) -> Solved:
    """Run the agent within its limit. Only cancellation and errors of the dataset's wording are raised."""
    limit = phases.limit("agent", task_s=timeout_s)
    options: dict[str, Any] = {}
    context: RolloutContext | None = None
    if instruction is not None:
        # An agent that takes no context knows the task from its instance alone.
        instance = {**instance, "instruction": instruction}
    with boundary("agent", plugin=roles.agent):
        servers = roles.mcp_servers(instance)
    if roles.takes_context:
        with boundary("dataset", plugin=roles.dataset):
            text = roles.instruction(instance) if instruction is None else instruction
            skills = roles.skills_dir(instance)
        context = RolloutContext(
            trial=trial,
            dataset=roles.dataset,
            instruction=text,
            limits=phases.limits if limit == phases.limits.agent_s else _with_agent_s(phases.limits, limit),
            user=user,
            mcp_servers=servers,
            skills_dir=skills,
            attempt=attempt,
            log_dir=log_dir,
            signal=DeadlineSignal(limit),
        )
        options["context"] = context
    result, error, expired = AgentResult(), None, False
    try:
        with (
            boundary("agent", plugin=roles.agent),
            phases.phase("agent", AgentTimeout, task_s=timeout_s, detail="") as phase,
            _ending_with(sandbox),
        ):
            result = _checked(await roles.agent.solve(sandbox, instance, model=trial.model, **options))
        expired = phase.expired
    except TrialError as exc:
        error = exc
        if context is not None and context.kept is not None:
            result = _kept(context.kept)
    result = _with_usage(result, context)
    if error is None:
        reached = None if context is None else context.signal.reason
        return _returned(result, timed_out=expired, reached=reached, limit=limit, agent=roles.agent)
    if error.code == FailureCode.AGENT_FAILED and error.__cause__ is not None and not sandbox.alive:
        lost = SandboxGone("the sandbox was lost while the agent worked")
        lost.boundary, lost.__cause__ = "sandbox", error.__cause__
        error = lost
    elif error.code == FailureCode.VERIFIER_ERROR:
        failed = AgentFailed(str(error), detail=error.detail)
        boundary("agent", plugin=roles.agent).mark(failed)
        error = failed
    fatal = error.code in (FailureCode.HOST_ERROR, FailureCode.ENV_FAILED)
    return Solved(result=result, ended=_ending(error), error=error, stopped=True, fatal=fatal)


@contextmanager
def _ending_with(sandbox: Sandbox) -> Iterator[None]:
    """Stop an agent that hands the loss of its sandbox to its model as one more answer, and so on for ever."""
    with anyio.CancelScope() as scope:
        sandbox.on_ignored = scope.cancel
        try:
            yield
        finally:
            sandbox.on_ignored = None
    if scope.cancelled_caught:
        raise SandboxGone("the sandbox was lost while the agent worked, and the agent went on calling it")


def _with_agent_s(limits: Limits, seconds: float | None) -> Limits:
    return limits.model_copy(update={"agent_s": seconds})


def _checked(result: object) -> AgentResult:
    if not isinstance(result, AgentResult):
        raise AgentFailed(f"solve returned {type(result).__name__}, not an AgentResult", detail="invalid_result")
    for name, value, kinds in (
        ("patch", result.patch, str),
        ("exit_code", result.exit_code, int | None),
        ("trajectory", result.trajectory, Mapping | None),
        ("usage", result.usage, Usage | None),
        ("info", result.info, Mapping),
    ):
        if not isinstance(value, kinds):
            raise AgentFailed(f"the agent's {name} is a {type(value).__name__}", detail="invalid_result")
    if result.ended is not None and result.ended not in _ENDINGS:
        raise AgentFailed(f"the agent ended with {result.ended!r}, which is none of {sorted(_ENDINGS)}")
    return result


def _kept(result: object) -> AgentResult:
    """What a stopped agent left; something malformed must not hide why it was stopped."""
    try:
        return _checked(result)
    except AgentFailed:
        return AgentResult()


def _with_usage(result: AgentResult, context: RolloutContext | None) -> AgentResult:
    if result.usage is not None or context is None or context.usage == _NO_USAGE:
        return result
    return replace(result, usage=context.usage)


def _returned(
    result: AgentResult, *, timed_out: bool, reached: str | None, limit: float | None, agent: object
) -> Solved:
    """The ending of an agent that returned, if only because it was told to stop."""
    ended: Ended = result.ended or ("agent_error" if result.exit_code else "completed")
    if timed_out:
        ended = "timeout"
    elif result.ended is None and reached in _ENDINGS:
        ended = reached  # type: ignore[assignment]
    if ended == "completed":
        return Solved(result=result, ended=ended)
    error: TrialError
    if ended == "timeout":
        error = AgentTimeout("the agent timed out" if limit is None else f"agent exceeded its limit of {limit:g} s")
    elif ended == "agent_error":
        code = "an error" if result.exit_code is None else f"exit code {result.exit_code}"
        said = _last_words(result)
        error = AgentFailed(f"the agent ended with {code}: {said}" if said else f"the agent ended with {code}")
    else:
        error = LimitReached(ended)
    boundary("agent", plugin=agent).mark(error)
    return Solved(result=result, ended=ended, error=error, stopped=ended != "agent_error")


def _last_words(result: AgentResult) -> str:
    said = result.info.get("stderr_tail") or result.info.get("stdout_tail")
    text = " ".join(said.split()) if isinstance(said, str) else ""
    return text if len(text) <= _SAID_CHARS else f"…{text[1 - _SAID_CHARS :]}"


def _ending(error: TrialError) -> Ended:
    if error.code == FailureCode.AGENT_TIMEOUT:
        return "timeout"
    if isinstance(error, LimitReached) and error.limit in _ENDINGS:
        return error.limit  # type: ignore[return-value]
    return "agent_error"
