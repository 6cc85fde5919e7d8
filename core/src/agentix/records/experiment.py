"""manifest.json of an experiment: the file, the cases and the matrix that it was, and with what they were run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from agentix.records.manifest import PluginUse, use_changes
from agentix.records.plain import dump_pretty, plain
from agentix.records.record import utc_now
from agentix.records.run_manifest import RunManifest, Session, changed, changed_keys

_FROZEN = ConfigDict(frozen=True, extra="forbid")


class CaseUse(BaseModel):
    """A case of the plan, and which bytes it is."""

    model_config = _FROZEN

    name: str
    """What trial ids call it."""
    label: str
    """What records call it."""
    source: str
    dataset: PluginUse
    sha256: str | None = None
    found_sha256: str | None = None
    """Before it was repaired, where it was."""
    pin: dict[str, str] = Field(default_factory=dict)
    """What its place was resolved to."""
    image_digests: tuple[str, ...] = ()
    """Of the images that its trials ran in."""
    planned: int | None = None
    """How many trials of it belong to the run; `None` for those of every row."""


class AgentRow(BaseModel):
    """One row of the matrix: an agent, with one model or with none."""

    model_config = _FROZEN

    agent: str
    """What records call it."""
    llm_spec: str | None = None
    use: PluginUse
    trials: int
    """Of every case."""
    planned: int | None = None
    """How many trials of it belong to the run; `None` for those of every case that was not left out."""

    @property
    def key(self) -> str:
        """What it is called in a difference."""
        return self.agent if self.llm_spec is None else f"{self.agent} with {self.llm_spec}"


class CommandUse(BaseModel):
    """A configured command."""

    model_config = _FROZEN

    form: str
    """`run`, `script` or `uses`."""
    sha256: str
    """Over what would run, the bytes of files included."""


class StepUse(BaseModel):
    """A step of the pipeline."""

    model_config = _FROZEN

    scope: str
    label: str
    uses: str
    kind: str
    """`plugin` or `command`."""
    fingerprint: str
    parts: dict[str, str] = Field(default_factory=dict)
    """The beginning of the hash of each thing that decides what it does."""

    def is_not(self, new: StepUse) -> bool:
        """Whether `new` does something else."""
        return self.fingerprint != new.fingerprint

    def difference(self, new: StepUse) -> str:
        """The parts that are other ones in `new`, in brackets after a blank; nothing where they are not known."""
        parts = self._other_parts(new)
        return f" ({', '.join(parts)})" if parts else ""

    def _other_parts(self, new: StepUse) -> list[str]:
        """Which parts are other ones in `new`, as far as that is known."""
        if not self.parts or not new.parts:
            return []
        return sorted(name for name in {*self.parts, *new.parts} if self.parts.get(name) != new.parts.get(name))


class StepEnd(BaseModel):
    """How a step of the whole experiment ended."""

    model_config = _FROZEN

    step: str
    fingerprint: str
    ok: bool
    message: str = ""
    warned: bool = False
    """Whether it failed and the file says that this is no more than a warning."""
    published: tuple[str, ...] = ()
    """Where in the run's directory it put what may leave this machine."""
    withheld: int = 0
    """How many trials were no part of what it shipped."""
    made_of: str | None = None
    """Tells the redacted trials that there were when it ran from any others; `None` where it does not publish."""
    at: str = Field(default_factory=utc_now)


class ExperimentManifest(RunManifest):
    """The configuration of an experiment's run and its history."""

    schema_version: Literal[1] = 1
    kind: Literal["experiment"] = "experiment"
    run_id: str
    created_at: str = Field(default_factory=utc_now)
    experiment: str
    """Its name."""
    file: str
    file_sha256: str
    executor: StepUse
    provider: PluginUse | None = None
    """Where sandboxes came from; `None` where the executor brings its own."""
    limits: dict[str, float | int | None] = Field(default_factory=dict)
    max_attempts: int = 1
    retry_on: tuple[str, ...] = ()
    cases: tuple[CaseUse, ...] = ()
    matrix: tuple[AgentRow, ...] = ()
    llm_specs: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Without keys."""
    commands: dict[str, CommandUse] = Field(default_factory=dict)
    steps: tuple[StepUse, ...] = ()
    planned: int = 0
    """How many trials the run consists of."""
    versions: dict[str, str] = Field(default_factory=dict)
    """Of agentix and of the distributions that the plugins come from."""
    gate: tuple[str, ...] = ()
    """What the checks of the cases concluded."""
    rejected: dict[str, str] = Field(default_factory=dict)
    """Cases that were left out, and why."""
    unknown: dict[str, str] = Field(default_factory=dict)
    """Cases that a check could not be made on, and why; their trials are part of what was planned."""
    ended: tuple[StepEnd, ...] = ()
    """The steps of the whole experiment that have run since the last result."""
    incomplete: str | None = None
    """Why the last session ended before everything was done."""
    mixed: tuple[str, ...] = ()
    """What was changed by force while the run already had results."""
    sessions: tuple[Session, ...] = ()

    @property
    def title(self) -> str:
        """What the run is, in one line."""
        where = "" if self.provider is None else f" in {self.provider.ref}"
        agents = ", ".join(dict.fromkeys(row.agent for row in self.matrix))
        return f"{self.experiment}: {agents} on {len(self.cases)} cases through {self.executor.label}{where}"

    def to_bytes(self) -> bytes:
        """The content of manifest.json."""
        return dump_pretty(plain(self.model_dump(mode="json")))

    def changes(self, new: ExperimentManifest) -> list[str]:
        """What in `new` makes its results another measurement than this run's, field by field."""
        return [
            *changed("name", self.experiment, new.experiment),
            *_step_changes(self.executor, new.executor),
            *_provider_changes(self.provider, new.provider),
            *changed_keys("limits", self.limits, new.limits),
            *self._case_changes(new),
            *self._agent_changes(new),
            *self._llm_changes(new),
        ]

    def trial_step_changes(self, new: ExperimentManifest) -> list[str]:
        """What `new` does differently after each trial, step by step; no difference in what is measured."""
        before, after = ({step.label: step for step in one.steps if step.scope == "per_trial"} for one in (self, new))
        both = [(name, before[name], after[name]) for name in after if name in before]
        return [
            *(f"{name} is another one than before{old.difference(now)}" for name, old, now in both if old.is_not(now)),
            *(f"{name} is new" for name in after if name not in before),
            *(f"{name} is no longer in the file" for name in before if name not in after),
        ]

    def _case_changes(self, new: ExperimentManifest) -> Iterator[str]:
        before = {case.name: case for case in self.cases}
        for case in new.cases:
            old = before.get(case.name)
            if old is not None:
                yield from changed(f"case {case.name} sha256", _short(old.sha256), _short(case.sha256))
                yield from use_changes(f"case {case.name} dataset", old.dataset, case.dataset)

    def _agent_changes(self, new: ExperimentManifest) -> Iterator[str]:
        before = {row.key: row for row in self.matrix}
        for row in new.matrix:
            old = before.get(row.key)
            if old is not None:
                yield from use_changes(f"agent {row.key}", old.use, row.use)

    def _llm_changes(self, new: ExperimentManifest) -> Iterator[str]:
        for name, spec in new.llm_specs.items():
            if name in self.llm_specs:
                yield from changed_keys(f"llm_spec {name}", self.llm_specs[name], spec)

    def resumed(self, new: ExperimentManifest, *, mixed: Iterable[str]) -> ExperimentManifest:
        """This manifest after a resume with the configuration `new`: nothing that was planned is forgotten."""
        digests = {case.name: case.image_digests for case in self.cases}
        cases = tuple(case.model_copy(update={"image_digests": digests.get(case.name, ())}) for case in new.cases)
        named = {case.name for case in cases}
        rows = {row.key for row in new.matrix}
        return new.model_copy(
            update={
                "created_at": self.created_at,
                "cases": (*cases, *(case for case in self.cases if case.name not in named)),
                "matrix": (*new.matrix, *(row for row in self.matrix if row.key not in rows)),
                "llm_specs": {**self.llm_specs, **new.llm_specs},
                "planned": max(self.planned, new.planned),
                "mixed": tuple(dict.fromkeys((*self.mixed, *mixed))),
                "sessions": (*self.sessions, *new.sessions),
            }
        )


def _short(sha256: str | None) -> str | None:
    return None if sha256 is None else sha256[:12]


def _step_changes(old: StepUse, new: StepUse) -> Iterator[str]:
    yield from changed("executor", old.uses, new.uses)
    if old.uses == new.uses:
        yield from changed("executor kind", old.kind, new.kind)
        yield from changed(f"executor fingerprint{old.difference(new)}", old.fingerprint[:12], new.fingerprint[:12])


def _provider_changes(old: PluginUse | None, new: PluginUse | None) -> Iterator[str]:
    if old is None or new is None:
        yield from changed("provider", None if old is None else old.ref, None if new is None else new.ref)
    else:
        yield from use_changes("provider", old, new)
