"""Options that several commands have, worded once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show tracebacks of errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Out = Annotated[Path, typer.Option(help="Directory of all runs.", envvar="AGENTIX_OUT")]

DatasetOpt = Annotated[list[str] | None, typer.Option(help="An option of the dataset.", metavar="K=V")]
ProviderOpt = Annotated[list[str] | None, typer.Option(help="An option of the provider.", metavar="K=V")]
Instance = Annotated[list[str] | None, typer.Option(help="Only instances with this id; repeatable.", metavar="GLOB")]

TrialsAtATime = Annotated[int, typer.Option(min=1, help="Trials at a time.", envvar="AGENTIX_N_CONCURRENT")]
AllowFailures = Annotated[bool, typer.Option("--allow-failures", help="Exit 0 also where trials are unmeasured.")]
SummaryJson = Annotated[bool, typer.Option("--json", help="Print one JSON summary on stdout, progress on stderr.")]
SummaryOnly = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the summary.")]

UnusedFor = Annotated[
    str, typer.Option(help="Remove what nobody asked for in this time, such as 12h or 7d.", metavar="TIME")
]
OnlySay = Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")]
