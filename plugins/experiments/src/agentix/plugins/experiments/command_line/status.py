"""`agentix status`: how far a run is, and what it has measured; it works while the run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentix.plugins.experiments.command_line.options import Out

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def status(
    what: Annotated[str, typer.Argument(metavar="RUN", help="An id in OUT, or a path.")],
    out: Out = Path("runs"),
    pass_at: Annotated[float | None, typer.Option(help="Count the trials with at least this reward.")] = None,
    failures: Annotated[bool, typer.Option("--failures", help="List what was not measured, and why.")] = False,
    case: Annotated[str | None, typer.Option(help="Only cases whose name contains this.", metavar="TEXT")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show how far a run is and what it has measured; it works while the run goes on."""
    import json as json_module

    from agentix.api import RunError
    from agentix.cli.api import Output, finite, locate
    from agentix.plugins.experiments.progress.status import look, print_status, to_data

    finite(pass_at, "--pass-at")
    run, trial_id = locate(what, out=out)
    if trial_id is not None:
        raise RunError(f"{what} is a trial; a run is wanted here", hint=f"agentix show {what} shows it.")
    found = look(run, case=case, most=1_000_000_000 if json and failures else 40)
    if case is not None and not (found.cases or found.left_out):
        raise RunError(f"--case {case}: the run has no such case")
    output = Output.stdout()
    if json:
        data = to_data(found, pass_at=pass_at, failures=failures)
        output.write(json_module.dumps(data, indent=2, allow_nan=False) + "\n")
        output.flush()
    else:
        print_status(found, output, pass_at=pass_at, failures=failures, case=case)
