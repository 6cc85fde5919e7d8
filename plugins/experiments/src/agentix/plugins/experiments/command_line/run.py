"""`agentix run`: an experiment file, from its cases to its report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentix.cli.api import WORDS, exit_codes
from agentix.plugins.experiments.command_line.options import CommandsFile, Out

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog=f"{exit_codes.EPILOG}\n\n{WORDS}")
def run(
    file: Annotated[Path, typer.Argument(help="The experiment file.", metavar="FILE")],
    run_id: Annotated[
        str | None, typer.Option("--id", help="Name of the run; the name of an earlier run resumes it.")
    ] = None,
    out: Out = Path("runs"),
    executor: Annotated[
        str | None,
        typer.Option(help="Runs the trials: a step, a configured command, local, or auto.", metavar="NAME"),
    ] = None,
    provider: Annotated[
        str | None, typer.Option(help="Makes the sandboxes, instead of the file's.", envvar="AGENTIX_PROVIDER")
    ] = None,
    provider_opt: Annotated[list[str] | None, typer.Option(help="An option of the provider.", metavar="K=V")] = None,
    commands: CommandsFile = None,
    n_concurrent: Annotated[
        int | None, typer.Option(min=1, help="Trials at a time, instead of the file's.", envvar="AGENTIX_N_CONCURRENT")
    ] = None,
    case: Annotated[list[str] | None, typer.Option(help="Only cases that match; repeatable.", metavar="GLOB")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many cases of what is left.")] = None,
    regate: Annotated[bool, typer.Option("--regate", help="Check the cases again, whatever was found before.")] = False,
    retry: Annotated[
        list[str] | None,
        typer.Option(
            help="On resume, run trials again that failed with this code, or with any infrastructure failure (infra).",
            metavar="infra|CODE",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Resume although the configuration changed; new records are marked mixed.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run, and run nothing.")] = False,
    max_cost_usd: Annotated[
        float | None,
        typer.Option(
            help="No trial is started once the known costs, and what the running ones may still cost, reach this.",
            envvar="AGENTIX_MAX_COST_USD",
        ),
    ] = None,
    stop_after: Annotated[
        int,
        typer.Option(
            min=0,
            help="Stop after so many infrastructure failures of one cause in a row; 0 never stops.",
            envvar="AGENTIX_STOP_AFTER",
        ),
    ] = 5,
    fail_under: Annotated[float | None, typer.Option(help="Exit 1 where the mean reward is below this.")] = None,
    allow_failures: Annotated[
        bool, typer.Option("--allow-failures", help="Exit 0 also where trials are unmeasured.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON summary on stdout, progress on stderr.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the summary.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Line by line, a fuller log, and tracebacks of errors.")
    ] = False,
) -> None:
    """Run an experiment file: resolve its cases, check them, run what is missing of its trials, and report.

    Results are kept in OUT/ID as each trial ends; the same ID goes on where an interrupted run stopped.
    """
    from agentix.cli.api import finite, parse_pairs, parse_retry
    from agentix.plugins.experiments.engine import RunRequest, run_experiment

    request = RunRequest(
        file=file,
        out=out,
        run_id=run_id,
        executor=executor,
        provider=provider,
        provider_options=parse_pairs(provider_opt or (), where="--provider-opt"),
        commands=commands,
        n_concurrent=n_concurrent,
        cases=tuple(case or ()),
        limit=limit,
        regate=regate,
        retry=parse_retry(retry or ()),
        force=force,
        dry_run=dry_run,
        max_cost_usd=_positive(max_cost_usd, "--max-cost-usd"),
        stop_after=stop_after or None,
        fail_under=finite(fail_under, "--fail-under"),
        allow_failures=allow_failures,
        json=json,
        quiet=quiet,
        verbose=verbose,
    )
    raise typer.Exit(run_experiment(request))


def _positive(value: float | None, where: str) -> float | None:
    from agentix.api import ConfigError
    from agentix.cli.api import finite

    if finite(value, where) is not None and value is not None and value <= 0:
        raise ConfigError(f"{value} is not a number greater than 0", where=where, hint="Leave it out for no limit.")
    return value
