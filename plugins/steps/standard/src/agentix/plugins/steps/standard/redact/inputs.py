"""The inputs of the step `redact`. What is not understood is refused: to ignore it would be to publish keys."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, field_validator

from agentix.api import ConfigError, Record, RedactionRules, Redactor, Secrets

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class AddressRules(BaseModel):
    """Where addresses of machines are taken out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    traj: StrictBool = True
    """In trajectories, results and records."""
    logs: StrictBool = False
    """In every other file, where a version number is easily taken for an address."""


class RedactInputs(BaseModel):
    """What is taken out besides known keys and what looks like one."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    keys: Literal["required"] = "required"
    """Keys are always taken out; there is no other value."""
    ips: AddressRules = AddressRules()
    """Whether addresses are taken out: of trajectories, results and records (`traj`), of all other files (`logs`)."""
    extra_patterns: tuple[str, ...] = ()
    """Regular expressions; what they match is taken out, or their group `secret`."""
    variables: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Names of variables of this machine whose values are secret."""

    @field_validator("keys", mode="before")
    @classmethod
    def _no_switch(cls, value: Any) -> Any:
        if value != "required":
            raise ValueError("taking keys out has no switch: required is the only value, and the default")
        return value

    @field_validator("extra_patterns")
    @classmethod
    def _patterns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        try:
            RedactionRules(extra_patterns=value)
        except ConfigError as error:
            raise ValueError(f"{error.message}{f'. {error.hint}' if error.hint else ''}") from None
        for pattern in value:
            redactor = Redactor(Secrets(), rules=RedactionRules(extra_patterns=(pattern,)))
            # Without one of them a record is none, so that nothing of any trial could be published.
            if lost := [key for key in sorted(Record.model_fields) if redactor.text(key) != key]:
                raise ValueError(f"{pattern!r} matches {lost[0]!r}, a key of every record; make it more specific")
        return value

    @field_validator("variables")
    @classmethod
    def _names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not _VARIABLE.fullmatch(name):
                # It may be the value itself that somebody has put here.
                raise ValueError("an entry is no name of a variable; give the names, never the values")
        return value

    @property
    def rules(self) -> RedactionRules:
        """As the redactor takes them."""
        return RedactionRules(
            ips_in_results=self.ips.traj, ips_in_logs=self.ips.logs, extra_patterns=self.extra_patterns
        )

    def values(self) -> Iterator[tuple[str, str]]:
        """Name and value of the variables that are set."""
        for name in self.variables:
            if value := os.environ.get(name, "").strip():
                yield name, value

    def too_short(self) -> list[str]:
        """The variables whose values are too short to be told from other text."""
        return [name for name, value in self.values() if not Secrets().add(value)]
