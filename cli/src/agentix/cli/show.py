"""`agentix show`: a run, or one of its trials."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentix.cli.options import Out

if TYPE_CHECKING:
    from agentix.records import Run

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def show(
    what: Annotated[str, typer.Argument(metavar="RUN[/TRIAL]", help="An id in OUT, or a path.")],
    out: Out = Path("runs"),
    failures: Annotated[bool, typer.Option("--failures", help="Only trials that are not resolved.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="List all trials, however many.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show tracebacks of failed trials.")] = False,
) -> None:
    """Show a run, finished or not, or one of its trials."""
    from agentix.cli.locate import locate
    from agentix.cli.show_trial import show_trial

    run, trial_id = locate(what, out=out)
    if trial_id is not None:
        show_trial(run, trial_id, as_json=json, verbose=verbose)
    elif json:
        _show_json(run, failures=failures)
    else:
        _show_text(run, failures=failures, most=1_000_000_000 if everything else None)


def _show_text(run: Run, *, failures: bool, most: int | None) -> None:
    from agentix.cli.output import Output
    from agentix.cli.summary import ROWS, notes_of_all, print_trials, print_unsolved
    from agentix.cli.wording import totals
    from agentix.records.lock import read_owner
    from agentix.stats import Summary

    output = Output.stdout()
    manifest = run.manifest
    if manifest is not None:
        output.line(f"{run.path}: {manifest.title}")
        for change in manifest.mixed:
            output.line(f"mixed: {change}")
    owner = read_owner(run.layout.lock)
    if owner is not None:
        output.line(f"being written by {owner}" if owner.is_alive else f"its writer ended without saying so ({owner})")
    limit = ROWS if most is None else most
    shared = notes_of_all(run)
    if not failures:
        print_trials(run, output, most=limit, told=shared)
    print_unsolved(run, output, most=limit)
    for note in shared:
        output.line(f"note: {note}")
    for line in totals(Summary.of(run, planned=None if manifest is None else manifest.planned)):
        output.line(line)
    output.line(f"results: {run.layout.results}")


def _show_json(run: Run, *, failures: bool) -> None:
    import json

    from agentix.cli.output import Output
    from agentix.stats import Summary

    output = Output.stdout()
    manifest = run.manifest
    head = {
        "run_id": run.path.name,
        "path": str(run.path),
        "results": str(run.layout.results),
        "summary": Summary.of(run, planned=None if manifest is None else manifest.planned).to_data(),
    }
    # Records are written as they are read: a run may be larger than memory is meant for.
    output.write(json.dumps(head, allow_nan=False)[:-1] + ', "records": [')
    comma = ""
    for record in run:
        if not (failures and record.resolved):
            output.write(comma + record.to_line().decode().rstrip("\n"))
            comma = ",\n"
    output.write("]}\n")
    output.flush()
