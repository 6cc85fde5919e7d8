"""The option `--version`."""

from __future__ import annotations

from typing import Any

import typer


def _show(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"agentix {version('agentix-rollouts-cli')} (core {version('agentix-rollouts-core')})")
        raise typer.Exit


def version_option() -> Any:
    """Prints the version and ends."""
    return typer.Option("--version", help="Print the version and exit.", callback=_show, is_eager=True)
