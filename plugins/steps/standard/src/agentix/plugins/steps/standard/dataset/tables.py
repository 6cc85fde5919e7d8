"""Rows into files, a few at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Protocol, Self

from agentix.plugins.steps.standard.dataset.columns import arrow_schema

BATCH = 16 << 20
"""Bytes of text, about, that are written at once."""
SHARD = 512 << 20
"""The same, of one file."""


class Table(Protocol):
    """Takes rows while it is open."""

    def add(self, row: Mapping[str, Any]) -> None:
        """One more."""
        ...

    def finish(self) -> str:
        """Write the rest.

        Returns:
            What the files are called, relative to the dataset.
        """
        ...


class JsonLines:
    """`data/trials.jsonl`.

    Args:
        directory: Of the dataset.
    """

    def __init__(self, directory: Path) -> None:
        self._file: BinaryIO = (directory / "data" / "trials.jsonl").open("wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def add(self, row: Mapping[str, Any]) -> None:
        """One more."""
        line = json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        self._file.write(line.encode() + b"\n")

    def finish(self) -> str:
        """Write the rest."""
        self._file.flush()
        return "data/trials.jsonl"


class Parquet:
    """`data/trials-00000-of-0000N.parquet`.

    Args:
        directory: Of the dataset.
        shard: Bytes of text, about, after which another file is begun.
    """

    def __init__(self, directory: Path, *, shard: int = SHARD) -> None:
        self._arrow: Any = import_module("pyarrow")
        self._parquet: Any = import_module("pyarrow.parquet")
        self._schema = arrow_schema(self._arrow)
        self._data = directory / "data"
        self._shard = shard
        self._rows: list[Mapping[str, Any]] = []
        self._held = self._written = 0
        self._writer: Any = None
        self._files: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def add(self, row: Mapping[str, Any]) -> None:
        """One more."""
        self._rows.append(row)
        self._held += 1000 + len(row["patch"] or "") + len(row["trajectory"] or "")
        if self._held >= min(BATCH, self._shard):
            self._flush()
        if self._written >= self._shard:
            self._end()

    def finish(self) -> str:
        """Write the rest, and name the files by how many they are."""
        if self._rows or not self._files:
            self._flush()
        self._end()
        for number, file in enumerate(self._files):
            file.rename(self._data / f"trials-{number:05d}-of-{len(self._files):05d}.parquet")
        return "data/trials-*.parquet"

    def _flush(self) -> None:
        if self._writer is None:
            self._files.append(self._data / f".trials-{len(self._files):05d}.tmp")
            self._writer = self._parquet.ParquetWriter(self._files[-1], self._schema, compression="zstd")
        self._writer.write_table(self._arrow.Table.from_pylist(self._rows, schema=self._schema))
        self._written += self._held
        self._rows, self._held = [], 0

    def _end(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer, self._written = None, 0
