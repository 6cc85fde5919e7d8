"""`agentix doctor`: whether this machine can run rollouts."""

from __future__ import annotations

from typing import Annotated

import typer

from agentix.cli.options import Verbose

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def doctor(
    provider: Annotated[
        list[str] | None,
        typer.Option(help="Only of this provider whether it works; repeatable. All by default.", metavar="REF"),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Check this machine: one line for each thing, exit code 1 where one is a problem."""
    import anyio

    from agentix.cli.checkup import checkup
    from agentix.cli.output import Output

    output = Output.stdout()
    bad = 0

    async def run() -> None:
        nonlocal bad
        async for finding in checkup(provider or ()):
            output.line(f"{'ok     ' if finding.ok else 'PROBLEM'}  {finding.what}: {finding.said}")
            bad += not finding.ok

    anyio.run(run)
    if bad:
        output.line(f"{bad} to be looked at")
        raise typer.Exit(1)
