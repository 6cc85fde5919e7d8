"""Which stage the agent of a sandbox works on, for the reference solution, which is told only the sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agentix.api import Sandbox
from agentix.plugins.datasets.harbor.task import Stage


class CurrentStage:
    """The stages that agents work on now, by the id of their sandbox."""

    def __init__(self) -> None:
        self._stages: dict[str, Stage] = {}

    @contextmanager
    def stage(self, sandbox: Sandbox, stage: Stage) -> Iterator[None]:
        """Say what the sandbox's agent works on within the context."""
        self._stages[sandbox.id] = stage
        try:
            yield
        finally:
            del self._stages[sandbox.id]

    def of(self, sandbox: Sandbox) -> Stage | None:
        """The stage, where its agent works."""
        return self._stages.get(sandbox.id)
