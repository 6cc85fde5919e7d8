"""The records of what may be published of a run, in an order that does not depend on which trial ended first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from agentix.api import Record, load_run


class Results:
    """The lines of a run's results.jsonl, read one at a time; only their places are kept.

    Args:
        run_dir: The run's directory, or a tree like it.

    Raises:
        RecordsDamaged: A line is no record.
    """

    def __init__(self, run_dir: Path) -> None:
        self._file = run_dir / "results.jsonl"
        self._places: list[tuple[tuple[str, str, str, int, str], int, int]] = []
        if not self._file.exists():
            return
        for _ in load_run(run_dir):
            # A damaged line is refused here, with its number.
            pass
        with self._file.open("rb") as file:
            offset = 0
            for line in file:
                if line.endswith(b"\n") and line.strip():
                    self._places.append((_key(line), offset, len(line)))
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

    def __iter__(self) -> Iterator[Record]:
        for _, line in self.lines():
            yield Record.model_validate_json(line)


def _key(line: bytes) -> tuple[str, str, str, int, str]:
    data = json.loads(line)
    return data["case"], data.get("agent", ""), data.get("llm_spec") or "", data.get("index", 1), data["trial_id"]
