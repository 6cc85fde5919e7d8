"""A step of the file, found and checked: ready to run on every unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from agentix.api import NamesPlaces, Scope, ShipRefused, Step, StepContext
from agentix.plugins.experiments.documents.models import StepSpec
from agentix.plugins.experiments.steps.templates import example, fill, variables

if TYPE_CHECKING:
    from agentix.plugins.experiments.commands import Command


@dataclass(frozen=True, kw_only=True)
class ResolvedStep:
    """One step of the pipeline."""

    spec: StepSpec
    scope: Scope
    kind: Literal["plugin", "command"]
    plugin: str
    """How errors and records call what runs it: a plugin with distribution and version, or a configured command."""
    key: str
    """Name of its directories; no other step of its scope has it."""
    step: Step | None = None
    """The plugin."""
    command: Command | None = None
    """The configured command."""
    executes: bool = False
    """Whether it runs the trial."""
    reports: bool = False
    """Whether it also runs on the way out of a run that did not complete."""
    redacts: bool = False
    """Whether it makes what may be published of a trial."""
    publishes: bool = False
    """Whether it sees only what may leave this machine."""
    ships: bool = False
    """Whether it sends that away; such a step publishes too."""
    path: str | None = None
    """What it ships, in the run's directory, with its templates; `None` where that follows from the steps before it."""
    fix: Command | None = None
    """Repairs what it rejected."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """The inputs as the file gives them, with their templates; what becomes of `path` is in `path`."""

    file: Path | None = None
    """The experiment file, beside which inputs that are paths of this machine may be."""

    @property
    def label(self) -> str:
        """What reports call it."""
        return self.spec.label

    def inputs(self, ctx: StepContext) -> Any:
        """The inputs for one unit: the plugin's model, or plain values for a command."""
        filled = fill(self.given, variables(ctx))
        return filled if self.step is None else self.step.Inputs.model_validate(filled, context=self._context)

    def example_inputs(self, word: str = "example") -> Any:
        """The plugin's inputs before there is a unit, with an example's values where templates stand."""
        assert self.step is not None
        filled = fill(self.given, example(self.scope, word))
        return self.step.Inputs.model_validate(filled, context=self._context)

    @property
    def _context(self) -> dict[str, Any]:
        return {"scope": self.scope, "file": self.file}

    def places(self) -> tuple[frozenset[str], ...]:
        """Where it publishes for sure, for two examples of what templates stand for; empty if it cannot tell."""
        if not self.publishes or not isinstance(self.step, NamesPlaces):
            return ()
        examples = (self.example_inputs(), self.example_inputs("another"))
        return tuple(frozenset(self.step.places(inputs)) for inputs in examples)

    def source(self, ctx: StepContext) -> PurePosixPath | None:
        """What it ships of a unit, in the run's directory; `None` where that follows from the steps before it.

        Raises:
            ShipRefused: With its templates filled in, it leads out of that directory.
        """
        if self.path is None:
            return None
        place = fill(self.path, variables(ctx))
        if (wrong := place_problem(place)) is not None:
            raise ShipRefused(f"{self.label}: path {place!r}: {wrong}")
        return PurePosixPath(place)

    def fingerprint(self) -> str:
        """Hash of everything written down that decides what it does: code, inputs, and the bytes of files they name."""
        from agentix.plugins.experiments.steps.fingerprint import fingerprint

        return fingerprint(self)


def place_problem(place: str) -> str | None:
    """Why this names nothing in the run's directory, if so."""
    path = PurePosixPath(place)
    if not place.strip() or "\0" in place:
        return "has to be the path of something in the run's directory"
    if path.is_absolute():
        return "has to be relative to the run's directory"
    if ".." in path.parts:
        return "leads out of the run's directory"
    return None
