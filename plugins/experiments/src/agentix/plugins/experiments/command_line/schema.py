"""`agentix schema`: the JSON Schema of the experiment file."""

from __future__ import annotations

import json

import typer

app = typer.Typer(add_completion=False)


@app.command()
def schema() -> None:
    """Print the JSON Schema of the experiment file, with the inputs of every installed step, for editors."""
    from agentix.plugins.experiments.steps.schema import experiment_schema

    typer.echo(json.dumps(experiment_schema(), indent=2, ensure_ascii=False))
