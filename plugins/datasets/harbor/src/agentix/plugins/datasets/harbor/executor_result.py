"""What a trial's `result.json` of the Harbor CLI says, read strictly."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from agentix.api import Usage, open_plain

RESULT_FILE = "result.json"
MAX_RESULT_BYTES = 64 << 20


class BadResult(ValueError):
    """A `result.json` is not one."""


def _count(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a number is needed, not a boolean")
    return value


_Tokens = Annotated[int, BeforeValidator(_count), Field(ge=0)] | None
_Dollars = Annotated[float, BeforeValidator(_count), Field(ge=0, allow_inf_nan=False)] | None


class _Part(BaseModel):
    """Harbor adds keys with every version; those that are read have to be what they are known to be."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class ExceptionInfo(_Part):
    """An exception that Harbor has recorded."""

    exception_type: str
    exception_message: str = ""
    exception_traceback: str = ""


class Verdict(_Part):
    """What the tests gave."""

    rewards: dict[str, Any] | None = None
    """Not checked here: a reward that is none is the tests' fault and not Harbor's."""


class Spent(_Part):
    """What the agent spent; prompt tokens include those of a cache."""

    n_input_tokens: _Tokens = None
    n_cache_tokens: _Tokens = None
    n_output_tokens: _Tokens = None
    cost_usd: _Dollars = None

    @property
    def usage(self) -> Usage | None:
        """The same in the normal form; `None` where nothing is known."""
        if (self.n_input_tokens, self.n_cache_tokens, self.n_output_tokens, self.cost_usd) == (None,) * 4:
            return None
        fresh, cached = self.n_input_tokens, self.n_cache_tokens or 0
        if fresh is not None and fresh >= cached:
            fresh -= cached
        return Usage(input=fresh, cache_read=self.n_cache_tokens, output=self.n_output_tokens, cost_usd=self.cost_usd)


class Timing(_Part):
    """When a phase was."""

    started_at: Annotated[datetime | None, Field(strict=False)] = None
    finished_at: Annotated[datetime | None, Field(strict=False)] = None

    @property
    def seconds(self) -> float | None:
        """How long it was."""
        if self.started_at is None or self.finished_at is None:
            return None
        return max(0.0, (self.finished_at - self.started_at).total_seconds())


class AgentInfo(_Part):
    """Which agent it was."""

    version: str | None = None


class StepResult(_Part):
    """What one step of a multi-step task gave."""

    step_name: str = ""
    agent_result: Spent | None = None
    verifier_result: Verdict | None = None
    exception_info: ExceptionInfo | None = None
    agent_execution: Timing | None = None
    verifier: Timing | None = None


class TrialResult(_Part):
    """A whole trial."""

    agent_info: AgentInfo | None = None
    agent_result: Spent | None = None
    verifier_result: Verdict | None = None
    exception_info: ExceptionInfo | None = None
    started_at: Annotated[datetime | None, Field(strict=False)] = None
    finished_at: Annotated[datetime | None, Field(strict=False)] = None
    environment_setup: Timing | None = None
    agent_setup: Timing | None = None
    agent_execution: Timing | None = None
    verifier: Timing | None = None
    step_results: tuple[StepResult, ...] | None = Field(default=None, strict=False)

    @property
    def exceptions(self) -> list[ExceptionInfo]:
        """That of the trial, then those of its steps."""
        found = [self.exception_info, *(step.exception_info for step in self.step_results or ())]
        return [one for one in found if one is not None]

    @property
    def rewards(self) -> Mapping[str, Any] | None:
        """The numbers of the tests, as they stand there."""
        return None if self.verifier_result is None else self.verifier_result.rewards

    @property
    def usage(self) -> Usage | None:
        """What was spent in all steps."""
        spent = [self.agent_result] if self.agent_result else [step.agent_result for step in self.step_results or ()]
        total: Usage | None = None
        for one in spent:
            usage = None if one is None else one.usage
            if usage is not None:
                total = usage if total is None else total + usage
        return total

    @property
    def phases(self) -> dict[str, float]:
        """Seconds of each phase."""
        steps = self.step_results or ()
        parts: dict[str, Sequence[Timing | None]] = {
            "create": [self.environment_setup],
            "setup": [self.agent_setup],
            "agent": [self.agent_execution, *(step.agent_execution for step in steps)],
            "score": [self.verifier, *(step.verifier for step in steps)],
        }
        found: dict[str, float] = {}
        for phase, timings in parts.items():
            seconds = [timing.seconds for timing in timings if timing is not None and timing.seconds is not None]
            if seconds:
                found[phase] = sum(seconds)
        return found


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a job of one trial left."""

    directory: Path
    """Of the trial."""
    result: TrialResult


def read_result(job: Path) -> Found | None:
    """The result of the one trial of a job; `None` where there is none.

    Raises:
        BadResult: There are several, or it is damaged.
    """
    found = sorted(path for path in job.glob(f"*/{RESULT_FILE}") if path.is_file()) if job.is_dir() else []
    if not found:
        return None
    if len(found) > 1:
        raise BadResult(f"there are {len(found)} results, and one trial was asked for")
    path = found[0]
    text = plain_text(path, limit=MAX_RESULT_BYTES)
    try:
        data = json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise BadResult(f"it is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise BadResult("it is no object")
    if not {"exception_info", "verifier_result"} <= data.keys():
        missing = sorted({"exception_info", "verifier_result"} - data.keys())
        raise BadResult(f"it has no {' and no '.join(missing)}")
    try:
        return Found(directory=path.parent, result=TrialResult.model_validate(data))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise BadResult(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def plain_text(path: Path, *, limit: int) -> str:
    """The text of a plain file, whatever else could be put in its place.

    Raises:
        BadResult: It is something else, too large, or no text.
    """
    try:
        file = open_plain(path)
    except OSError as error:
        raise BadResult(f"it cannot be read: {error.strerror}") from None
    with file:
        if (size := os.fstat(file.fileno()).st_size) > limit:
            raise BadResult(f"it has {size} bytes")
        try:
            return file.read(limit).decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadResult(f"it is no text: byte {error.start} is not UTF-8") from None


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key occurs twice")
    return values
