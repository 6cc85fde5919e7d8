"""One line of results.jsonl: what is known of one trial that ended."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from agentix.models import Ended, FailureCode, Rollout
from agentix.records.plain import clean_text, dump_line, plain

_STRICT = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
_MESSAGE_LIMIT = 2000
_UNRELEASED = "unreleased sandbox: "
_STEP_NOTE = re.compile(r"step (?P<step>.+?): (?P<what>(?:warning|the steps after it are left out)(?::.*)?)", re.DOTALL)

Count = Annotated[int, Field(ge=0)]


class UsageRecord(BaseModel):
    """Tokens, cost and calls; what is unknown is absent, which is not zero."""

    model_config = _STRICT

    input: Count | None = None
    output: Count | None = None
    cache_read: Count | None = None
    cache_write: Count | None = None
    cost_usd: float | None = None
    turns: Count | None = None
    tool_calls: Count | None = None

    @property
    def tokens(self) -> int | None:
        """All tokens, or `None` where none of them is known."""
        known = [n for n in (self.input, self.output, self.cache_read, self.cache_write) if n is not None]
        return sum(known) if known else None


class StepFailure(BaseModel):
    """A step that failed after the measurement; it never changes the reward."""

    model_config = _STRICT

    step: str
    code: FailureCode
    message: str = ""


class Record(BaseModel):
    """One trial that ended, in the key order of the file. Keys without a value are left out of it."""

    model_config = _STRICT

    schema_version: Literal[1] = 1
    trial_id: Annotated[str, Field(min_length=1)]
    case: str
    """Id of the instance."""
    case_sha256: str | None = None
    agent: str = ""
    llm_spec: str | None = None
    index: Annotated[int, Field(ge=1)] = 1
    attempts: Count = 1
    reward: float | None = None
    metrics: dict[str, float] = Field(default_factory=dict)
    failure_code: FailureCode | None = None
    """Set only where there is no reward."""
    failure_detail: str | None = None
    failure_message: str | None = None
    ended: Ended | None = None
    usage: UsageRecord | None = None
    image_digest: str | None = None
    agent_version: str | None = None
    phases: dict[str, float] = Field(default_factory=dict)
    """Seconds spent in each phase."""
    step_failures: tuple[StepFailure, ...] = ()
    redaction: dict[str, int] = Field(default_factory=dict)
    """How often each kind of secret was removed."""
    seconds: float | None = None
    at: str | None = None
    """When the trial ended, in UTC (ISO 8601)."""
    dropped: bool = False
    """The measurement counts, and nothing of it is published."""
    notes: tuple[str, ...] = ()

    @classmethod
    def from_rollout(
        cls,
        rollout: Rollout,
        *,
        agent: str,
        case: str | None = None,
        llm_spec: str | None = None,
        case_sha256: str | None = None,
        at: str | None = None,
        notes: tuple[str, ...] = (),
    ) -> Record:
        """The record of a rollout.

        Args:
            rollout: A trial that ended; a cancelled one has no record.
            agent: Name of the agent.
            case: What the case is called, where that is not the instance's id.
            llm_spec: Name of the model spec, or the model.
            case_sha256: Hash of the instance's content.
            at: When it ended; now by default.
            notes: More for the reader, after the rollout's own notes.
        """
        reward = rollout.reward
        code, detail, message = _failure(rollout)
        said = [*rollout.notes]
        if rollout.skipped == "empty_patch" and reward is not None:
            said.append("empty patch: not scored, counts as 0")
        if reward is not None and code is not None:
            said.append(f"{code}: {message}")
            code, detail, message = None, None, None
        said += [_UNRELEASED + name for name in rollout.unreleased]
        usage = None
        if rollout.usage is not None:
            usage = UsageRecord.model_validate(plain(rollout.usage), strict=False)
        return cls(
            trial_id=rollout.trial_id,
            case=clean_text(case or rollout.instance_id),
            case_sha256=case_sha256,
            agent=clean_text(agent),
            llm_spec=None if llm_spec is None else clean_text(llm_spec),
            index=rollout.index,
            attempts=rollout.attempts,
            reward=None if reward is None else float(reward),
            metrics=_metrics(rollout, reward),
            failure_code=code,
            failure_detail=detail,
            failure_message=None if message is None else clean_text(message)[:_MESSAGE_LIMIT],
            ended=rollout.ended,
            usage=usage if usage is not None and usage.model_dump(exclude_none=True) else None,
            image_digest=rollout.image_digest,
            agent_version=rollout.agent_version,
            phases={name: round(seconds, 6) for name, seconds in rollout.phases.items()},
            seconds=round(rollout.duration_s, 6),
            at=at or utc_now(),
            notes=tuple(clean_text(note)[:_MESSAGE_LIMIT] for note in (*said, *notes)),
        )

    @property
    def measured(self) -> bool:
        """Whether there is a reward."""
        return self.reward is not None

    @property
    def resolved(self) -> bool:
        """Whether the scorer said that the instance is solved."""
        said = self.metrics.get("resolved")
        return self.reward is not None and (self.reward >= 1 if said is None else said >= 1)

    @property
    def unreleased(self) -> tuple[str, ...]:
        """Ids of sandboxes that could not be deleted."""
        return tuple(note.removeprefix(_UNRELEASED) for note in self.notes if note.startswith(_UNRELEASED))

    @property
    def step_notes(self) -> tuple[tuple[str, str], ...]:
        """Steps after the trial that did not pass and were let be: the step, what is noted."""
        found = (_STEP_NOTE.fullmatch(note) for note in self.notes)
        return tuple((said["step"], said["what"]) for said in found if said is not None)

    def to_data(self) -> dict[str, Any]:
        """The keys in their order, empty ones left out."""
        data = self.model_dump(mode="json", exclude_none=True)
        return {key: value for key, value in data.items() if value is not False and value not in ("", {}, [])}

    def to_line(self) -> bytes:
        """The line of results.jsonl, with its newline."""
        return dump_line(self.to_data())


def utc_now() -> str:
    """The time in UTC with milliseconds, such as `2026-01-31T12:00:00.000Z`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _failure(rollout: Rollout) -> tuple[FailureCode | None, str | None, str | None]:
    if rollout.failure is not None:
        return rollout.failure.code, rollout.failure.detail, rollout.failure.message
    if rollout.reward is not None:
        return None, None, None
    if rollout.skipped == "setup_failed":
        return FailureCode.ENV_FAILED, "setup", rollout.error or "the dataset could not set the task up"
    return FailureCode.HOST_ERROR, None, rollout.error or "the trial ended without a reward and without a reason"


def _metrics(rollout: Rollout, reward: float | None) -> dict[str, float]:
    given = plain((rollout.score or {}).get("metrics") or {})
    metrics = {k: float(v) for k, v in given.items() if isinstance(v, int | float)} if isinstance(given, dict) else {}
    # The schema has no key for it, and only where the two disagree can it not be told from the reward.
    if reward is not None and rollout.resolved != (reward >= 1) and "resolved" in (rollout.score or {}):
        metrics["resolved"] = float(rollout.resolved)
    return metrics
