"""The records of what may be published of a run, in an order that does not depend on which trial ended first."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agentix.api import Record, load_run

SortKey = tuple[str, str, str, int, str]
"""Case, agent, model, index, trial id."""


class Results:
    """The lines of a run's results.jsonl, read one at a time; only their places are kept.

    Args:
        run_dir: The run's directory, or a tree like it.

    Raises:
        RecordsDamaged: A line is no record.
    """

    def __init__(self, run_dir: Path) -> None:
        self._file = run_dir / "results.jsonl"
        self._places: list[tuple[SortKey, int, int]] = []
        if not self._file.exists():
            return
        for _ in load_run(run_dir):
            # A damaged line is refused here, with its number.
            pass
        with self._file.open("rb") as file:
            offset = 0
            for line in file:
                if line.endswith(b"\n") and line.strip():
                    self._places.append((sort_key(json.loads(line)), offset, len(line)))
                offset += len(line)
        self._places.sort()

    def __len__(self) -> int:
        return len(self._places)

    @property
    def trial_ids(self) -> list[str]:
        """By case, agent, model and index."""
        return [key[-1] for key, _, _ in self._places]

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """Trial id and line, in the same order."""
        if not self._places:
            return
        with self._file.open("rb") as file:
            for key, offset, length in self._places:
                file.seek(offset)
                yield key[-1], file.read(length)


def sort_key(record: Mapping[str, Any]) -> SortKey:
    """Where a record stands among the others of its run."""
    named = (record["case"], record.get("agent") or "", record.get("llm_spec") or "")
    return (*named, record.get("index", 1), record["trial_id"])


def record_of(data: Mapping[str, Any]) -> Record:
    """A record from its plain data."""
    return Record.model_validate_json(json.dumps(data))
