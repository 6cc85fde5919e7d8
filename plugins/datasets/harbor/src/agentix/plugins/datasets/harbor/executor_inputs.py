"""What the step `harbor` may be told in an experiment file."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
_OURS = frozenset(
    {
        *("-p", "--path", "-a", "--agent", "-m", "--model", "-e", "--env", "-o", "--jobs-dir", "--job-name"),
        *("-k", "--n-attempts", "-n", "--n-concurrent", "-r", "--max-retries", "-c", "--config"),
    }
)


def _seconds(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a duration such as 90s, 30m or 1h30m is needed")
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value.strip())
    if not value.strip() or match is None:
        raise ValueError(f"{value!r} is no duration such as 90s, 30m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def _argument(value: str) -> str:
    flag = value.partition("=")[0]
    if flag in _OURS:
        raise ValueError(f"{flag} is given by the step itself")
    return value


Duration = Annotated[float, BeforeValidator(_seconds), Field(gt=0, allow_inf_nan=False)]


class HarborInputs(BaseModel):
    """How trials are handed to the Harbor CLI."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)] = ("harbor",)
    """The Harbor CLI: a program on the PATH or a path of one, and arguments that come first."""
    environment: Annotated[str, Field(min_length=1)] = "docker"
    """Where Harbor makes its sandboxes, as its option `--env` says it."""
    args: tuple[Annotated[str, BeforeValidator(_argument)], ...] = ()
    """More arguments for `harbor run`. They are seen by everybody on this machine, so no key belongs here."""
    timeout: Duration | None = None
    """How long one attempt may take altogether. By default the sum of what the task allows, and ten minutes; no limit
    where the task sets none for its agent."""
    agent_timeout: Duration | None = None
    """How long the agent may take, instead of what the experiment's limits or else the task say."""
    verifier_timeout: Duration | None = None
    """How long the tests may take, instead of what the task says."""
    timeout_multiplier: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """Multiplies the times of agent, tests and build."""
