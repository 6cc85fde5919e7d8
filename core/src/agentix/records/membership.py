"""Whether a record is of the run in whose file it stands."""

from __future__ import annotations

from agentix.records.experiment import ExperimentManifest
from agentix.records.manifests import AnyManifest
from agentix.records.record import Record


class Membership:
    """The cases and agents that a run has had.

    They are known of an experiment in which nothing was changed by force; what was is in its manifest no longer.

    Args:
        manifest: Of the run.
    """

    def __init__(self, manifest: AnyManifest | None) -> None:
        self._cases: set[str] = set()
        self._agents: set[str] = set()
        if isinstance(manifest, ExperimentManifest) and not manifest.mixed:
            # A case may have moved since; its content is the same.
            self._cases = {name for case in manifest.cases for name in (case.label, case.sha256) if name is not None}
            self._agents = {row.agent for row in manifest.matrix}

    def stranger(self, record: Record) -> str | None:
        """What a record is of that the run has never had; `None` where it is one of the run's."""
        if self._cases and not self._cases & {record.case, record.case_sha256}:
            return f"the case {record.case}"
        if self._agents and record.agent not in self._agents:
            return f"the agent {record.agent}"
        return None
