"""`agentix new`: starting points to be edited."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def new() -> None:
    """Write a starting point that you edit."""


@app.command()
def adapters(
    directory: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to write them.")] = Path("adapters"),
) -> None:
    """Write adapters for Harbor, rclone and GitHub, and two templates of a step, as plain shell scripts."""
    from agentix.cli.api import Output
    from agentix.plugins.experiments.command_line.adapters import write_adapters

    output = Output.stdout()
    for path in write_adapters(directory):
        output.line(f"wrote {path}")
    output.line("The two step-*.sh fail until you edit them.")
