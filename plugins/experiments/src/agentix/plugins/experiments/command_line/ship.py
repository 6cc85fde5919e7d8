"""`agentix ship`: send what a run may publish, once more or for the first time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentix.plugins.experiments.command_line.options import CommandsFile, Out

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_EPILOG = """Exit codes: 0 everything went; 1 a step failed; 2 usage; 129 SIGHUP; 130 SIGINT; 143 SIGTERM."""


@app.command(epilog=_EPILOG)
def ship(
    what: Annotated[str, typer.Argument(metavar="RUN", help="An id in OUT, or a path.")],
    file: Annotated[Path, typer.Argument(help="The experiment file that says what goes where.", metavar="FILE")],
    out: Out = Path("runs"),
    commands: CommandsFile = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go where, and send and record nothing.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, progress on stderr.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Line by line, a fuller log, and tracebacks of errors.")
    ] = False,
) -> None:
    """Run the per_experiment steps of FILE that publish and ship on a RUN that there is, and write its reports again.

    What goes is redacted and put together first. Steps that have shipped before ship again.
    """
    from agentix.api import RunError
    from agentix.cli.api import locate
    from agentix.plugins.experiments.engine import ShipRequest, ship_run

    run, trial_id = locate(what, out=out)
    if trial_id is not None:
        raise RunError(f"{what} is a trial; a run is wanted here")
    request = ShipRequest(run=run.path, file=file, commands=commands, dry_run=dry_run, json=json, verbose=verbose)
    raise typer.Exit(ship_run(request))
