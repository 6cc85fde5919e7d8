"""One row: what a record says, with what its trial left."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentix.api import Record, open_plain
from agentix.plugins.steps.standard.dataset.columns import COLUMNS

LARGEST = 8 << 20
"""Bytes of a patch or a trajectory that still is in a row: viewers read whole rows."""
_SUFFIXES = (".tar", ".tar.gz", ".tar.zst", ".zip")


@dataclass(frozen=True, kw_only=True)
class RowMaker:
    """Makes the rows of a run."""

    run_dir: Path
    models: Mapping[str, str]
    """What the provider calls each model."""
    masked: Callable[[bytes], bytes]
    """Takes the values out that nothing published may hold."""

    def row(self, record: Record, *, published: bool) -> dict[str, Any]:
        """The row of a trial, with every column.

        Args:
            record: Of the trial.
            published: Whether what the trial left may be published too.

        Raises:
            OSError: A file cannot be read.
        """
        usage = record.usage
        row: dict[str, Any] = dict.fromkeys(COLUMNS)
        row |= {
            "trial_id": record.trial_id,
            "case": record.case,
            "case_sha256": record.case_sha256,
            "agent": record.agent,
            "agent_version": record.agent_version,
            "llm_spec": record.llm_spec,
            "model": self.models.get(record.llm_spec or ""),
            "index": _count(record.index),
            "attempts": _count(record.attempts),
            "reward": None if record.reward is None else float(record.reward),
            "resolved": None if record.reward is None else record.resolved,
            "metrics": [{"name": name, "value": float(value)} for name, value in sorted(record.metrics.items())],
            "failure_code": None if record.failure_code is None else str(record.failure_code),
            "failure_detail": record.failure_detail,
            "failure_message": record.failure_message,
            "ended": None if record.ended is None else str(record.ended),
            "seconds": None if record.seconds is None else float(record.seconds),
            "at": record.at,
            "image_digest": record.image_digest,
            "dropped": record.dropped,
            "redactions": sum(record.redaction.values()) if record.redaction or published else None,
            "notes": list(record.notes),
        }
        if usage is not None:
            row |= {
                "input_tokens": _count(usage.input),
                "output_tokens": _count(usage.output),
                "cache_read_tokens": _count(usage.cache_read),
                "cache_write_tokens": _count(usage.cache_write),
                "cost_usd": None if usage.cost_usd is None else float(usage.cost_usd),
                "turns": _count(usage.turns),
                "tool_calls": _count(usage.tool_calls),
            }
        if published:
            row |= self._left(record.trial_id)
        return row

    def _left(self, trial_id: str) -> dict[str, Any]:
        trial_dir = self.run_dir / "trials" / trial_id
        patch, patch_bytes = self._content(trial_dir, "patch.diff")
        trajectory, trajectory_bytes = self._content(trial_dir, "trajectory.json")
        text, encoding = _patch_text(patch)
        return {
            "patch": text,
            "patch_encoding": encoding,
            "patch_bytes": patch_bytes,
            "trajectory": _text(trajectory),
            "trajectory_bytes": trajectory_bytes,
            "archive": self._archive(trial_id),
        }

    def _content(self, trial_dir: Path, name: str) -> tuple[bytes | None, int | None]:
        try:
            with open_plain(trial_dir / name, buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if size > LARGEST:
                    return None, size
                return self.masked(file.readall()), size
        except FileNotFoundError:
            return None, None

    def _archive(self, trial_id: str) -> str | None:
        places = [f"archives/{trial_id}{suffix}" for suffix in _SUFFIXES]
        return next((place for place in places if (self.run_dir / place).is_file()), None)


def _count(value: int | None) -> int | None:
    """A column holds 64 bits; what an agent says of itself may be anything, and such a number says nothing."""
    return value if value is None or value < 1 << 63 else None


def _patch_text(patch: bytes | None) -> tuple[str | None, str | None]:
    if patch is None:
        return None, None
    text = _text(patch)
    return (base64.b64encode(patch).decode(), "base64") if text is None else (text, "utf-8")


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
