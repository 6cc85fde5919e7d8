"""A configured command as a step: environment in, exit status out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from agentix.api import AgentixError, Scope, ShipError, StepContext, StepOutcome
from agentix.plugins.experiments.steps.templates import VARIABLES, variables

if TYPE_CHECKING:
    from agentix.plugins.experiments.commands import Command, CommandRunner

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_MESSAGE = 2000
LOG = "command.log"

FIX_VARIABLES = ("REJECTION", "REJECTED_BY", "ATTEMPT")
"""What a repair gets beside the variables of a per-case step."""


class TryLater(AgentixError):
    """A step could not come to a verdict, and may be able to later."""


class CommandLost(AgentixError):
    """A command ended without a verdict: it took too long, or a signal ended it."""


async def run_command_step(
    command: Command,
    ctx: StepContext,
    inputs: Mapping[str, Any],
    *,
    runner: CommandRunner,
    secrets: Mapping[str, str] = MappingProxyType({}),
    ships: bool = False,
) -> StepOutcome:
    """Run a command on one unit.

    Exit status 0 is a pass, 75 asks to be called again later, any other is the verdict that something is wrong; its
    text is the end of what the command printed. Of what ships it is no verdict: nothing has arrived, and the same may
    work later.

    Args:
        command: What to run; it starts where this process did, as all commands do.
        ctx: The unit.
        inputs: The step's `with`, templates filled in.
        runner: Runs it.
        secrets: Variables that it gets too, and whose values its log must not show.
        ships: Whether it sends something away.

    Raises:
        TryLater: It asks for that.
        CommandLost: It took too long, or a signal ended it.
        ShipError: It ships, and has not.
    """
    result = await runner.run(
        command,
        variables=environment(ctx, inputs),
        template=variables(ctx),
        log=ctx.work_dir / LOG,
        secrets=secrets,
    )
    said = _last(result.stderr, result.stdout)
    if result.timed_out:
        raise CommandLost(_joined(f"took longer than {result.limit_s:g} s and was killed", said))
    if result.signal is not None:
        raise CommandLost(_joined(f"was ended by {result.signal}", said))
    if result.try_later:
        raise TryLater(_joined("asks to be tried again later (exit status 75)", said))
    passed = result.exit_code == 0
    if ships and not passed:
        raise ShipError(_joined(f"exit status {result.exit_code}", said))
    message = _last(result.stdout) if passed else said or f"exit status {result.exit_code}"
    return StepOutcome(ok=passed, message=message, outputs={"exit_code": result.exit_code})


def environment(ctx: StepContext, inputs: Mapping[str, Any]) -> dict[str, str]:
    """The variables that a step's command gets; an input cannot take the place of one of ours."""
    values = variables(ctx)
    found = {name: text(value) for key, value in inputs.items() if (name := upper_snake(key))}
    found |= {
        "EXPERIMENT": ctx.experiment,
        "RUN_ID": ctx.run_id,
        "RUN_DIR": str(ctx.run_dir),
        "WORK_DIR": str(ctx.work_dir),
        "OUT_DIR": str(ctx.work_dir),
        "LOCAL_PATH": values["LocalPath"],
        "KEY": values["Key"],
    }
    if ctx.case is not None:
        found |= {
            "CASE_DIR": str(ctx.case.directory or ""),
            "CASE_NAME": ctx.case.name,
            "CASE_LABEL": ctx.case.label,
            "CASE_SHA": ctx.case.sha256 or "",
        }
    if ctx.scope is Scope.PER_TRIAL:
        found["TRIAL_ID"] = values["TrialID"]
        if ctx.trial_dir is not None:
            answer = ctx.trial_dir / "out"
            found["OUT_DIR"] = str(answer if answer.is_dir() else ctx.trial_dir)
    return found


def names_of(scope: Scope, inputs: Mapping[str, Any]) -> frozenset[str]:
    """What the words of a command may name in a scope."""
    found = {upper_snake(key) for key in inputs} | {n for n, scopes in VARIABLES.items() if scope in scopes}
    found |= {"EXPERIMENT", "RUN_ID", "RUN_DIR", "WORK_DIR", "OUT_DIR", "LOCAL_PATH", "KEY"}
    if scope is not Scope.PER_EXPERIMENT:
        found |= {"CASE_DIR", "CASE_NAME", "CASE_LABEL", "CASE_SHA"}
    return frozenset(found | ({"TRIAL_ID"} if scope is Scope.PER_TRIAL else set()))


def text(value: Any) -> str:
    """A value as a variable holds it: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def upper_snake(key: str) -> str:
    """`oracleMinReward` and `oracle-min-reward` as `ORACLE_MIN_REWARD`."""
    name = "_".join(part for part in _WORDS.split(key) if part).upper()
    return f"_{name}" if name[:1].isdigit() else name


def _last(*outputs: str) -> str:
    return next((output.strip()[-_MESSAGE:] for output in outputs if output.strip()), "")


def _joined(said: str, more: str) -> str:
    return f"{said}: {more}" if more else said
