"""The JSON Schema of the experiment file with the inputs of every installed step."""

from __future__ import annotations

import inspect
from typing import Any

from agentix.api import AgentixError, Scope, list_plugins, load, options_schema
from agentix.plugins.experiments.documents.schema import StepSchema, schema


def experiment_schema() -> dict[str, Any]:
    """The schema; of a step that cannot be loaded only the name is known."""
    return schema({info.name: _step(info.name) for info in list_plugins("step")})


def _step(name: str) -> StepSchema:
    try:
        step = load("step", name)
    except AgentixError:
        return StepSchema()
    said = " ".join((inspect.getdoc(type(step)) or "").split("\n\n", 1)[0].split())
    scopes = ", ".join(scope.value for scope in Scope if scope in step.scopes)
    return StepSchema(description=f"{said} ({scopes})".strip(), inputs=options_schema(step.Inputs))
