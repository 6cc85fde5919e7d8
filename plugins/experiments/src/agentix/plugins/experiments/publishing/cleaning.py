"""Taking secrets out of what a run says of itself: records, its manifest, its file, its reports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentix.api import Record, RedactionRules, Redactor, RunError, Secrets


class Cleaner:
    """Takes secrets out.

    Args:
        secrets: What is known of them, which may become more.
        rules: What else is taken out.
    """

    def __init__(self, secrets: Secrets, *, rules: RedactionRules | None = None) -> None:
        self._redactor = Redactor(secrets, rules=rules)

    def data(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Plain data without secrets."""
        return dict(self._redactor.data(given))

    def file(self, source: Path, target: Path) -> str | None:
        """Make a copy without secrets.

        Returns:
            Why there is none.
        """
        result = self._redactor.file(source, target, name=source.name)
        reasons = {**result.refused, **result.left_out}
        return None if result.files else next(iter(reasons.values()), "it is gone")

    def record(self, record: Record) -> Record:
        """A record without secrets; what it is called stays, so that it is found."""
        line = record.to_line().decode()
        if self._redactor.text(line) == line:
            return record
        data = self.data(record.to_data())
        try:
            return Record.model_validate({**data, "trial_id": record.trial_id}, strict=False)
        except ValidationError:
            raise without_keys(f"the record of {record.trial_id}") from None


def without_keys(what: str) -> RunError:
    """The error for what makes no sense without what is taken out of it; it tells nothing of that."""
    return RunError(
        f"{what} is none any more without what is taken out of it, so it cannot be published",
        hint="A pattern or a secret matches names of its keys: make it more specific.",
    )
