"""A step of the file, found and checked: ready to run on every unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from agentix.api import Scope, Step, StepContext
from agentix.plugins.experiments.documents.models import StepSpec
from agentix.plugins.experiments.steps.templates import fill, variables

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
    fix: Command | None = None
    """Repairs what it rejected."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """The inputs as the file gives them, with their templates."""

    @property
    def label(self) -> str:
        """What reports call it."""
        return self.spec.label

    def inputs(self, ctx: StepContext) -> Any:
        """The inputs for one unit: the plugin's model, or plain values for a command."""
        filled = fill(self.given, variables(ctx))
        return filled if self.step is None else self.step.Inputs.model_validate(filled, context={"scope": ctx.scope})

    def fingerprint(self) -> str:
        """Hash of everything written down that decides what it does: code, inputs, and the bytes of files they name."""
        from agentix.plugins.experiments.steps.fingerprint import fingerprint

        return fingerprint(self)
