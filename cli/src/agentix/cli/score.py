"""`agentix score`: score again what a run has kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentix.cli import exit_codes
from agentix.cli.options import AllowFailures, Instance, Out, ProviderOpt, SummaryJson, SummaryOnly, TrialsAtATime

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog=exit_codes.EPILOG)
def score(
    what: Annotated[str, typer.Argument(metavar="RUN", help="An id in OUT, or a path.")],
    out: Out = Path("runs"),
    provider: Annotated[
        str | None, typer.Option(help="Score in sandboxes of this one instead of the run's own.", metavar="REF")
    ] = None,
    provider_opt: ProviderOpt = None,
    dataset_opt: Annotated[
        list[str] | None, typer.Option(help="An option of the dataset, beside the run's own.", metavar="K=V")
    ] = None,
    instance: Instance = None,
    n_concurrent: TrialsAtATime = 8,
    allow_failures: AllowFailures = False,
    json: SummaryJson = False,
    quiet: SummaryOnly = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print every phase, and tracebacks.")] = False,
) -> None:
    """Score the answers of a run again, each in a new sandbox, with the dataset as it is now.

    The results are a new set beside the old one, in RUN/rescored/N, which stays as it is. What cannot be scored
    again is named: an answer that is the state of a sandbox went with it, unless the dataset has kept what its
    scorer takes of it.
    """
    from agentix.cli.rescoring import Rescoring, rescore
    from agentix.cli.values import parse_pairs

    code = rescore(
        Rescoring(
            what=what,
            out=out,
            provider=provider,
            provider_options=parse_pairs(provider_opt or (), where="--provider-opt"),
            dataset_options=parse_pairs(dataset_opt or (), where="--dataset-opt"),
            patterns=tuple(instance or ()),
            n_concurrent=n_concurrent,
            allow_failures=allow_failures,
            json=json,
            quiet=quiet,
            verbose=verbose,
        )
    )
    raise typer.Exit(code)
