"""What manifest.json says of any run: where and when it ran, and how a later configuration differs."""

from __future__ import annotations

import platform as this_platform
import socket
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentix.errors import RecordsDamaged
from agentix.records.plain import plain
from agentix.records.record import utc_now

_FROZEN = ConfigDict(frozen=True, extra="forbid")


class Host(BaseModel):
    """Where a run ran."""

    model_config = _FROZEN

    name: str = Field(default_factory=socket.gethostname)
    platform: str = Field(default_factory=this_platform.platform)
    python: str = Field(default_factory=this_platform.python_version)
    executable: str = Field(default_factory=lambda: sys.executable)


class Session(BaseModel):
    """One time that the run was started or resumed."""

    model_config = _FROZEN

    at: str = Field(default_factory=utc_now)
    host: Host = Field(default_factory=Host)
    n_concurrent: int = 1
    to_run: int = 0
    """How many trials were still to be run."""
    versions: dict[str, str] = Field(default_factory=dict)
    changed: tuple[str, ...] = ()
    """Differences from the session before, which were forced or do not matter for the results."""


class RunManifest(BaseModel):
    """A manifest of either kind."""

    model_config = _FROZEN

    if TYPE_CHECKING:
        # Each kind declares these itself: fields of a base would come first in the file.
        versions: dict[str, str]
        mixed: tuple[str, ...]
        sessions: tuple[Session, ...]

    @classmethod
    def parse(cls, data: bytes, *, where: str) -> Self:
        """Read a manifest.

        Raises:
            RecordsDamaged: It is not one, or was written by a newer version.
        """
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            what = f"{place}: {first['msg']}" if place else first["msg"]
            raise RecordsDamaged(f"{where}: {what}", hint="Use another --id.") from None

    def version_changes(self, new: Self) -> list[str]:
        """Which distributions have another version in `new`."""
        return list(changed_keys("versions", self.versions, new.versions))

    def starting(self, *, n_concurrent: int, to_run: int, changed: tuple[str, ...]) -> Self:
        """This manifest with its one session as that starts."""
        session = self.sessions[0].model_copy(
            update={"n_concurrent": n_concurrent, "to_run": to_run, "changed": changed}
        )
        return self.model_copy(update={"sessions": (session,)})

    @property
    def record_notes(self) -> tuple[str, ...]:
        """What every record that is made from now on has to say of the run."""
        return tuple(f"mixed: {change}" for change in self.mixed)


def changed_keys(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """The keys that differ, each with both values."""
    for key in sorted({*old, *new}):
        yield from changed(f"{name} {key}", plain(old.get(key)), plain(new.get(key)))


def changed(name: str, old: object, new: object) -> Iterator[str]:
    """A difference in words, if there is one."""
    if old != new:
        yield f"{name}: {_word(old)} -> {_word(new)}"


def _word(value: object) -> str:
    return "(none)" if value is None else str(value)
