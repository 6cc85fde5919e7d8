"""manifest.json: what a run was asked to do, with what, where, and each time it was resumed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from agentix.models import TimeoutRule
from agentix.records.plain import clean_text, dump_pretty, plain
from agentix.records.record import utc_now
from agentix.records.run_manifest import RunManifest, Session, changed, changed_keys

_FROZEN = ConfigDict(frozen=True, extra="forbid")
_SECRET = re.compile(r"(^|[_-])(api_?key|key|token|secret|password|passwd|credentials?)$", re.IGNORECASE)


class PluginUse(BaseModel):
    """A plugin as the user named it."""

    model_config = _FROZEN

    ref: str
    options: dict[str, Any] = Field(default_factory=dict)
    sha256: str | None = None
    """Of the source that the reference names, where no version tells it apart."""
    files: dict[str, str] = Field(default_factory=dict)
    """Hashes of the files that options name."""

    @classmethod
    def of(
        cls,
        ref: str,
        options: Mapping[str, Any] | None = None,
        *,
        sha256: str | None = None,
        files: Mapping[str, str] | None = None,
    ) -> PluginUse:
        """A use whose secret options are kept as a digest only: enough to see that one changed.

        An option that is a mapping, or JSON text of one, is secret where a key of it is.
        """
        kept = {k: _digest(v) if _is_secret(k, v) else plain(v) for k, v in (options or {}).items()}
        return cls(ref=ref, options=kept, sha256=sha256, files=dict(files or {}))


class BundleUse(BaseModel):
    """The bundle that all sandboxes of a run have."""

    model_config = _FROZEN

    ref: str
    """As the user named it."""
    digest: str
    """What that was when the run was planned."""


class PlannedInstance(BaseModel):
    """An instance of the plan."""

    model_config = _FROZEN

    id: str
    sha256: str | None = None
    """Hash of its content, where the dataset has one."""

    @field_validator("id")
    @classmethod
    def _clean(cls, value: str) -> str:
        return clean_text(value)

    trials: int | None = None
    """How many trials of it are planned, where it is another number than the run's."""


class Manifest(RunManifest):
    """The configuration of a run and its history."""

    schema_version: Literal[1] = 1
    run_id: str
    created_at: str = Field(default_factory=utc_now)
    dataset: PluginUse
    agent: PluginUse
    provider: PluginUse
    model: str | None = None
    bundle: BundleUse | None = None
    trials: int = 1
    """Planned trials of every instance."""
    max_attempts: int = 1
    retry_on: tuple[str, ...] = ()
    limits: dict[str, float | int | None] = Field(default_factory=dict)
    timeouts: dict[str, TimeoutRule] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    """Of agentix, of the distributions that the plugins come from and of the agent."""
    instances: tuple[PlannedInstance, ...] = ()
    mixed: tuple[str, ...] = ()
    """What was changed by force while the run already had results."""
    sessions: tuple[Session, ...] = ()

    @property
    def title(self) -> str:
        """What the run is, in one line."""
        model = f" with {self.model}" if self.model else ""
        return f"{self.agent.ref}{model} on {self.dataset.ref} in {self.provider.ref}"

    def to_bytes(self) -> bytes:
        """The content of manifest.json."""
        data = self.model_dump(mode="json")
        data["instances"] = [instance.model_dump(exclude_none=True) for instance in self.instances]
        return dump_pretty(plain(data))

    def changes(self, new: Manifest) -> list[str]:
        """What in `new` makes its results another measurement than this run's, field by field."""
        return [
            *use_changes("dataset", self.dataset, new.dataset),
            *use_changes("agent", self.agent, new.agent),
            *use_changes("provider", self.provider, new.provider),
            *changed("model", self.model, new.model),
            *changed("bundle", _bundle(self.bundle), _bundle(new.bundle)),
            *changed_keys("limits", self.limits, new.limits),
            *changed_keys("timeouts", self.timeouts, new.timeouts),
            *self._case_changes(new),
        ]

    def _case_changes(self, new: Manifest) -> Iterator[str]:
        known = {i.id: i.sha256 for i in self.instances}
        for instance in new.instances:
            old = known.get(instance.id)
            if old is not None and instance.sha256 is not None:
                yield from changed(f"case {instance.id} sha256", old[:12], instance.sha256[:12])

    def resumed(self, new: Manifest, *, mixed: list[str]) -> Manifest:
        """This manifest after a resume with the configuration `new`: nothing that was planned is forgotten."""
        before = {i.id: i for i in self.instances}
        after = {i.id: i for i in new.instances}
        instances = []
        for name in dict.fromkeys((*before, *after)):
            old, current = before.get(name), after.get(name)
            planned = max(
                0 if old is None else old.trials or self.trials,
                0 if current is None else current.trials or new.trials,
            )
            latest = current or old
            if latest is not None:
                trials = None if planned == new.trials else planned
                instances.append(latest.model_copy(update={"trials": trials}))
        return new.model_copy(
            update={
                "created_at": self.created_at,
                "instances": tuple(instances),
                "mixed": tuple(dict.fromkeys((*self.mixed, *mixed))),
                "sessions": (*self.sessions, *new.sessions),
            }
        )

    @property
    def planned(self) -> int:
        """How many trials the run consists of."""
        return sum(i.trials or self.trials for i in self.instances)


def _is_secret(key: str, value: object) -> bool:
    if _SECRET.search(key):
        return True
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return False
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, Mapping):
        return any(_is_secret(str(inner), item) for inner, item in value.items())
    if isinstance(value, list | tuple):
        return any(_is_secret("", item) for item in value)
    return False


def _digest(value: object) -> str:
    return "sha256:" + hashlib.sha256(str(value).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _bundle(use: BundleUse | None) -> str | None:
    """A bundle is what its digest says, whatever it is called."""
    return None if use is None else use.digest.removeprefix("sha256:")[:12]


def use_changes(name: str, old: PluginUse, new: PluginUse) -> Iterator[str]:
    """How one use of a plugin differs from another."""
    yield from changed(name, old.ref, new.ref)
    if old.ref == new.ref:
        yield from changed(f"{name} sha256", (old.sha256 or "")[:12] or None, (new.sha256 or "")[:12] or None)
        yield from changed_keys(f"{name} option", old.options, new.options)
        # A file that was not there before is one that the plugin writes.
        for key in sorted({*old.files} & {*new.files}):
            yield from changed(f"{name} option {key} sha256", old.files[key][:12], new.files[key][:12])
