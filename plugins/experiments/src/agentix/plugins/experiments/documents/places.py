"""Where everything stands in the documents of a submission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentix.plugins.experiments.documents.nodes import Node, Place, place_of
from agentix.plugins.experiments.documents.paths import parse_path


@dataclass(frozen=True, kw_only=True)
class Places:
    """The documents as they were written. Made without any, it knows the file only."""

    experiment: Node | None = None
    llm_specs: Mapping[str, Node] = field(default_factory=dict)
    commands: Mapping[str, Node] = field(default_factory=dict)
    """The Commands document that each command stands in."""

    def find(self, path: str, *, default: Path) -> Place:
        """Where a path stands.

        Args:
            path: Of the experiment; or below `commands.NAME` or `llm_specs.NAME`.
            default: The file, for what stands nowhere.
        """
        parts = parse_path(path)
        room = {"commands": self.commands, "llm_specs": self.llm_specs}.get(str(parts[0])) if parts else None
        if room is not None and len(parts) > 1 and (document := room.get(str(parts[1]))) is not None:
            return place_of(document, parts[1:] if parts[0] == "commands" else parts[2:])
        if self.experiment is None:
            return Place(file=default, line=1, path=path)
        return place_of(self.experiment, parts)
