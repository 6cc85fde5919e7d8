"""Run one step on one unit: retries, attribution, and what its ending means for the unit."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import anyio

from agentix.api import (
    AgentixError,
    Failure,
    FailureCode,
    ShipError,
    ShipRefused,
    StepContext,
    StepOutcome,
    UsageError,
)
from agentix.plugins.experiments.steps.command_step import CommandLost, TryLater, run_command_step
from agentix.plugins.experiments.steps.resolved import ResolvedStep

if TYPE_CHECKING:
    from agentix.plugins.experiments.commands import CommandRunner

Verdict = Literal["passed", "rejected", "failed"]
"""`rejected`: it came to the conclusion that something is wrong; `failed`: it came to none."""

Reaction = Literal["go_on", "warn", "drop", "skip", "fail"]
"""What becomes of the unit. `drop`: it is measured and not published. `skip`: the rest of its steps is left out and the
run goes on; a case is left out altogether. `fail`: likewise, and the run does not end well."""

_DETAILS: Mapping[type[BaseException], str] = MappingProxyType(
    {TryLater: "try_later", CommandLost: "lost", ShipError: "not_shipped"}
)
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 60.0


def exponential(retry: int) -> float:
    """Seconds to wait before a retry: 1, 2, 4, … and a minute at most."""
    return float(min(_FIRST_WAIT_S * 2 ** min(retry - 1, 16), _LONGEST_WAIT_S))


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """How one step ended on one unit."""

    step: str
    """Its label."""
    plugin: str
    verdict: Verdict
    reaction: Reaction
    message: str = ""
    outcome: StepOutcome | None = None
    """What it concluded; `None` where it failed."""
    failure: Failure | None = None
    """STEP_FAILED, or REDACT_FAILED of one that redacts, where it rejected or failed and the file does not say
    otherwise."""
    attempts: int = 1
    seconds: float = 0.0

    @property
    def stops(self) -> bool:
        """Whether the steps after it are left out."""
        return self.reaction in ("skip", "fail")

    @property
    def dropped(self) -> bool:
        """Whether nothing of the unit is to be published."""
        return self.reaction == "drop"


async def run_step(
    resolved: ResolvedStep,
    ctx: StepContext,
    *,
    runner: CommandRunner | None = None,
    secrets: Mapping[str, str] = MappingProxyType({}),
    backoff: Callable[[int], float] = exponential,
) -> StepResult:
    """Run a step; what it raises is data, and cancellation goes through.

    A verdict is never asked for again: it would come out the same, and may cost money. What kept a step from its
    verdict is tried again `retries` times.

    Args:
        resolved: The step.
        ctx: The unit; its work directory exists.
        runner: Runs configured commands.
        secrets: Variables that configured commands get too, and whose values no log shows.
        backoff: Seconds to wait before the n-th retry.
    """
    started = time.monotonic()
    attempt = 0
    while True:
        attempt += 1
        try:
            outcome = await _run(resolved, ctx, runner=runner, secrets=secrets)
        except (Exception, SystemExit) as error:
            if attempt <= resolved.spec.retries and not isinstance(_inner(error), UsageError | ShipRefused):
                wait = backoff(attempt)
                ctx.say(f"{resolved.label}: {_cleaned(_first_line(error), ctx)}; again in {wait:g} s")
                await anyio.sleep(wait)
                continue
            result = failed(resolved, error, ctx)
        else:
            result = concluded(resolved, outcome)
        return replace(result, attempts=attempt, seconds=time.monotonic() - started)


async def _run(
    resolved: ResolvedStep, ctx: StepContext, *, runner: CommandRunner | None, secrets: Mapping[str, str]
) -> StepOutcome:
    inputs = resolved.inputs(ctx)
    if resolved.step is not None:
        outcome: Any = await resolved.step.run(ctx, inputs)
        if not isinstance(outcome, StepOutcome):
            raise TypeError(f"{resolved.plugin} returned a {type(outcome).__name__}, not a StepOutcome")
        return outcome
    assert resolved.command is not None
    if runner is None:
        raise RuntimeError(f"{resolved.plugin} needs somebody who runs commands")
    return await run_command_step(resolved.command, ctx, inputs, runner=runner, secrets=secrets, ships=resolved.ships)


def concluded(resolved: ResolvedStep, outcome: StepOutcome) -> StepResult:
    """What an outcome, such as one that is remembered, means by the file."""
    spec = resolved.spec
    if outcome.ok:
        reaction: Reaction = "drop" if outcome.drop else "go_on"
        return StepResult(
            step=resolved.label,
            plugin=resolved.plugin,
            verdict="passed",
            reaction=reaction,
            message=outcome.message,
            outcome=outcome,
        )
    reaction = spec.on_violation or spec.on_failure
    message = outcome.message or "it did not say why"
    return StepResult(
        step=resolved.label,
        plugin=resolved.plugin,
        verdict="rejected",
        reaction=reaction,
        message=message,
        outcome=outcome,
        failure=_failure(resolved, message) if reaction == "fail" else None,
    )


def failed(resolved: ResolvedStep, error: BaseException, ctx: StepContext) -> StepResult:
    """What it means by the file that a step, or what has to come before or after it, raised an error."""
    message = _cleaned(_message(error), ctx)
    detail = next((word for kind, word in _DETAILS.items() if isinstance(_inner(error), kind)), "raised")
    failure = _failure(
        resolved,
        message,
        detail=detail,
        trace=None if detail != "raised" else _cleaned("".join(traceback.format_exception(error)), ctx),
    )
    return StepResult(
        step=resolved.label,
        plugin=resolved.plugin,
        verdict="failed",
        reaction=resolved.spec.on_failure,
        message=message,
        failure=failure,
    )


def _failure(resolved: ResolvedStep, message: str, *, detail: str = "rejected", trace: str | None = None) -> Failure:
    return Failure(
        code=FailureCode.REDACT_FAILED if resolved.redacts else FailureCode.STEP_FAILED,
        message=f"{resolved.label}: {message}",
        detail=detail,
        boundary="step",
        plugin=resolved.plugin,
        traceback=trace,
    )


def _inner(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _cleaned(text: str, ctx: StepContext) -> str:
    """What a tool says may repeat the address that it was given, with the password in it."""
    from agentix.api import without_logins

    return ctx.secrets.text(without_logins(text))


def _message(error: BaseException) -> str:
    error = _inner(error)
    said = str(error).strip()
    known = isinstance(error, AgentixError)
    return said if known else f"{type(error).__name__}: {said}" if said else type(error).__name__


def _first_line(error: BaseException) -> str:
    return _message(error).splitlines()[0]
