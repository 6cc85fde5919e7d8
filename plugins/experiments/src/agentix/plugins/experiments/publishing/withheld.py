"""Which trials are not published, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentix.api import FailureCode, Record
from agentix.cli.api import plural

NO_KEY = "missing_key"
"""The detail of a trial that failed before it had its model's key."""


@dataclass
class Withheld:
    """The trials that are not published."""

    dropped: int = 0
    unredacted: dict[str, str] = field(default_factory=dict)
    """Why each of the others could not be redacted."""

    def __bool__(self) -> bool:
        return self.count > 0

    @property
    def count(self) -> int:
        """How many there are."""
        return self.dropped + len(self.unredacted)

    @property
    def line(self) -> str:
        """`2 trials are withheld: 1 dropped, 1 could not be redacted`."""
        parts = [f"{self.dropped} dropped"] if self.dropped else []
        parts += [f"{len(self.unredacted)} could not be redacted"] if self.unredacted else []
        are = "trial is" if self.count == 1 else "trials are"
        return f"{self.count} {are} withheld: {', '.join(parts)}"

    def reasons(self, most: int = 3) -> list[str]:
        """Why trials could not be redacted, what holds for most of them first."""
        found = Counter(self.unredacted.values()).most_common()
        lines = [f"{plural(count, 'trial')} could not be redacted: {why}" for why, count in found[:most]]
        return lines + ([f"… and {len(found) - most} more reasons"] if len(found) > most else [])


def why_not(record: Record, *, keys: Mapping[str, str], failed: Mapping[str, str]) -> str | None:
    """Why a trial that is not dropped may not be published; `None` where it may.

    Args:
        record: The trial's.
        keys: By model, why its key is not known.
        failed: By trial, why it could not be redacted in this session.
    """
    if record.trial_id in failed:
        return failed[record.trial_id]
    if record.llm_spec is not None and record.llm_spec in keys and record.failure_detail != NO_KEY:
        return keys[record.llm_spec]
    return None


def redaction_failed(record: Record) -> str | None:
    """What the record says of why its trial could not be redacted."""
    for failure in record.step_failures:
        if failure.code is FailureCode.REDACT_FAILED:
            return failure.message
    return None
