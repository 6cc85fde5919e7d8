"""The step `report`: writes what happened in a run, whichever way the run ended."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Literal

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from agentix.api import Scope, StepContext, StepOutcome
from agentix.plugins.steps.standard.report.as_csv import as_csv
from agentix.plugins.steps.standard.report.as_html import as_html
from agentix.plugins.steps.standard.report.as_json import as_json
from agentix.plugins.steps.standard.report.as_markdown import as_markdown
from agentix.plugins.steps.standard.report.facts import Facts, gather
from agentix.plugins.steps.standard.report.writing import (
    append_csv,
    append_line,
    append_section,
    free_place,
    replace,
    target,
)

Format = Literal["md", "json", "csv", "html"]

_SUFFIXES: dict[str, Format] = {".md": "md", ".markdown": "md", ".json": "json", ".jsonl": "json", ".csv": "csv"}
_SUFFIXES |= {".html": "html", ".htm": "html"}


class ReportInputs(BaseModel):
    """Where the report goes and what is in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dest: str | None = Field(default=None, min_length=1)
    """A path, in the run's directory unless it is absolute; by default `report` with the format's suffix."""
    format: Format | None = None
    """By default what the suffix of `dest` says, else `md`."""
    pass_at: float | None = Field(default=None, allow_inf_nan=False)
    """Count the trials that have at least this reward."""
    append: bool = False
    """Add to what the file holds instead of replacing it: a section, a JSON line, or rows, once for each run."""

    @property
    def kind(self) -> Format:
        """The format that it will have."""
        return self.format or _SUFFIXES.get(Path(self.dest or "").suffix.lower(), "md")

    @field_validator("dest")
    @classmethod
    def _no_file_of_the_run(cls, value: str | None) -> str | None:
        if value is not None and not Path(value).is_absolute():
            free_place(PurePosixPath(value), value)
        return value

    @model_validator(mode="after")
    def _appendable(self) -> ReportInputs:
        if self.append and self.kind == "html":
            raise ValueError("a page in html cannot be appended to another; use md, json or csv")
        return self


class Report:
    """Write what happened in the run as md, json, csv or html.

    It is written on every way out. A run that did not complete says so, with all that was measured until then.
    """

    scopes = frozenset({Scope.PER_EXPERIMENT})
    Inputs = ReportInputs
    reports = True

    async def run(self, ctx: StepContext, inputs: ReportInputs) -> StepOutcome:
        """Write the report.

        Raises:
            RecordsDamaged: The results cannot be read.
            OSError: The file cannot be written.
            ValueError: `dest` names a file of the run itself, or no file.
        """
        path = await anyio.to_thread.run_sync(_write, ctx, inputs)
        return StepOutcome(message=f"wrote {path}", outputs={"path": str(path), "format": inputs.kind})


def _write(ctx: StepContext, inputs: ReportInputs) -> Path:
    path = target(ctx.run_dir, inputs.dest or f"report.{inputs.kind}")
    facts = gather(ctx, pass_at=inputs.pass_at)
    if not inputs.append:
        replace(path, _rendered(facts, inputs.kind))
    elif inputs.kind == "csv":
        append_csv(path, as_csv(facts))
    elif inputs.kind == "json":
        append_line(path, as_json(facts, lines=True))
    else:
        append_section(path, as_markdown(facts), run=f"{facts.run_id} {facts.created_at}".strip())
    return path


def _rendered(facts: Facts, kind: Format) -> str:
    match kind:
        case "md":
            return as_markdown(facts)
        case "json":
            return as_json(facts)
        case "csv":
            return as_csv(facts)
        case "html":
            return as_html(facts)
