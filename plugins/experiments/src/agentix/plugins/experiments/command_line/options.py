"""Options that several of the commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Out = Annotated[Path, typer.Option(help="Directory of all runs.", envvar="AGENTIX_OUT")]
CommandsFile = Annotated[
    Path | None,
    typer.Option(help="Take the commands from this file; a FILE that brings its own is refused.", metavar="FILE"),
]
