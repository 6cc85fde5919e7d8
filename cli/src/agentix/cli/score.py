"""`agentix score`: score again what a run has kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentix.cli import exit_codes

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog=exit_codes.EPILOG)
def score(
    what: Annotated[str, typer.Argument(metavar="RUN", help="An id in OUT, or a path.")],
    out: Annotated[Path, typer.Option(help="Directory of all runs.", envvar="AGENTIX_OUT")] = Path("runs"),
    provider: Annotated[
        str | None, typer.Option(help="Score in sandboxes of this one instead of the run's own.", metavar="REF")
    ] = None,
    provider_opt: Annotated[list[str] | None, typer.Option(help="An option of the provider.", metavar="K=V")] = None,
    dataset_opt: Annotated[
        list[str] | None, typer.Option(help="An option of the dataset, beside the run's own.", metavar="K=V")
    ] = None,
    instance: Annotated[
        list[str] | None, typer.Option(help="Only instances with this id; repeatable.", metavar="GLOB")
    ] = None,
    n_concurrent: Annotated[int, typer.Option(min=1, help="Trials at a time.", envvar="AGENTIX_N_CONCURRENT")] = 8,
    allow_failures: Annotated[
        bool, typer.Option("--allow-failures", help="Exit 0 also where trials are unmeasured.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON summary on stdout, progress on stderr.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the summary.")] = False,
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
