"""The JSON Schema of the experiment file with the inputs of every installed step."""

from __future__ import annotations

from typing import Any

from agentix.plugins.experiments.documents.schema import StepSchema, schema
from agentix.plugins.experiments.steps.listing import InstalledStep, installed_steps


def experiment_schema() -> dict[str, Any]:
    """The schema; of a step that cannot be loaded only the name is known."""
    return schema({step.name: _schema(step) for step in installed_steps()})


def _schema(step: InstalledStep) -> StepSchema:
    if step.broken is not None:
        return StepSchema()
    return StepSchema(description=f"{step.summary} ({', '.join(step.scopes)})".strip(), inputs=step.schema)
