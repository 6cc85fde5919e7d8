"""What is known of one installed plugin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agentix.registry.kinds import AnyKind

State = Literal["installed", "ambiguous", "incompatible", "ok", "broken"]
"""`installed` has not been imported, `ok` and `broken` have."""


@dataclass(frozen=True, kw_only=True)
class PluginInfo:
    """One entry point of one distribution. The fields after `plugin_api` are known once it was imported."""

    kind: AnyKind
    name: str
    target: str
    """`module:attr`, as the entry point names it."""
    distribution: str
    version: str
    requires: tuple[str, ...] = ()
    plugin_api: tuple[str, ...] = ()
    state: State = "installed"
    cause: str | None = None
    """Why it is in a state that is no good."""
    doc: str | None = None
    """The whole docstring."""
    capabilities: tuple[str, ...] = ()
    isolation: str | None = None
    """A provider's own words on what it isolates and what not."""
    schema: Mapping[str, Any] | None = None
    """JSON schema of its options; `None` where it takes none."""
    inputs: Mapping[str, Any] | None = None
    """JSON schema of what a file gives a step or a transport each time; `None` where only an object of it knows."""

    @property
    def label(self) -> str:
        """Name, distribution and version, as errors give them."""
        return f"{self.name} ({self.distribution} {self.version})"

    @property
    def exact(self) -> str:
        """The reference that picks this one whatever else is installed."""
        return f"{self.distribution}/{self.name}"

    @property
    def summary(self) -> str | None:
        """The first paragraph of the docstring, on one line."""
        return " ".join(self.doc.split("\n\n", 1)[0].split()) if self.doc else None
