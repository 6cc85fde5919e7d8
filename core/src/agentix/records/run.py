"""Reading a run, finished or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from agentix.errors import AgentixError, RunError
from agentix.records.layout import Layout
from agentix.records.manifests import AnyManifest, parse_manifest
from agentix.records.plain_files import read_plain
from agentix.records.record import Record
from agentix.records.scan import Scan
from agentix.records.trial_files import PATCH_FILE, TRIAL_FILE, TrialFile, read_trial_file

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Run:
    """A run directory. It is only read, so this works while the run goes on."""

    path: Path

    @property
    def layout(self) -> Layout:
        """Where its files are."""
        return Layout(self.path)

    @cached_property
    def manifest(self) -> AnyManifest | None:
        """What the run was asked to do; `None` where only results are there."""
        file = self.layout.manifest
        return parse_manifest(read_plain(file), where=str(file)) if file.exists() else None

    def __iter__(self) -> Iterator[Record]:
        """The records one at a time, in the order in which their trials ended.

        A torn last line, such as one that is just being written, is left out.

        Raises:
            RecordsDamaged: While iterating: another line is damaged.
        """
        return iter(Scan(self.layout.results))

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """All records, in the order in which their trials ended."""
        return tuple(self)

    def trial(self, trial_id: str) -> TrialFile:
        """The whole result of one trial.

        Raises:
            RunError: The run has no such trial, or it has not ended.
        """
        try:
            return read_trial_file(self.layout.trial(trial_id) / TRIAL_FILE)
        except FileNotFoundError:
            raise RunError(f"{self.path}: no trial {trial_id} has ended in this run") from None

    def patch(self, trial_id: str) -> bytes:
        """What the agent changed; empty where it changed nothing."""
        file = self.layout.trial(trial_id) / PATCH_FILE
        return file.read_bytes() if file.exists() else b""

    def to_dataframe(self) -> pd.DataFrame:
        """The records as a table with one column a key; `usage`, `phases` and `metrics` are spread over columns.

        Raises:
            AgentixError: pandas is not installed.
        """
        try:
            import pandas as pd
        except ModuleNotFoundError:
            raise AgentixError(
                "to_dataframe needs pandas, which is not installed",
                hint="Install it with: pip install 'agentix-rollouts-core[pandas]'",
            ) from None
        columns = [name for name in Record.model_fields if name not in ("usage", "phases", "metrics")]
        rows = [_row(record) for record in self]
        frame = pd.DataFrame(rows)
        spread = [str(name) for name in frame.columns if name not in columns]
        return frame.reindex(columns=[*columns, *sorted(spread)])


def load_run(path: Path | str) -> Run:
    """Open a run directory for reading.

    Args:
        path: The directory, such as `runs/my-run`, or its results.jsonl.

    Raises:
        RunError: There is no run.
    """
    root = Path(path)
    if root.name == "results.jsonl":
        root = root.parent
    layout = Layout(root)
    # A run whose cases are still being fetched has nothing but its progress.
    if not any(file.exists() for file in (layout.results, layout.manifest, layout.progress)):
        raise RunError(f"{root}: there is no run here (no results.jsonl and no manifest.json)")
    return Run(root)


def _row(record: Record) -> dict[str, object]:
    row: dict[str, object] = {}
    for name in Record.model_fields:
        value = getattr(record, name)
        if name == "usage":
            row |= {f"usage.{key}": item for key, item in value or ()}
        elif name in ("phases", "metrics"):
            row |= {f"{name}.{key}": item for key, item in value.items()}
        else:
            row[name] = value
    return row
