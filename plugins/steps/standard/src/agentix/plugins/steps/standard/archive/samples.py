"""Many trials in a row of tars, in the layout that WebDataset and `datasets` read: one trial is one sample.

Every sample has the same four fields, whatever its trial left: `datasets` takes its columns from the first
samples, refuses others, and makes a table of what is called `.json`, which no two trajectories fit into.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from agentix.api import WalkEntry
from agentix.plugins.steps.standard.archive.tar import TarWriter, length
from agentix.plugins.steps.standard.left_out import LeftOut, files_and_directories

RECORD, PATCH, TRAJECTORY, FILES = "record.jsonl", "patch.diff", "trajectory.atif", "files.tar"
_FIELDS = {b"patch.diff": PATCH, b"trajectory.json": TRAJECTORY}


def keys(trial_ids: Iterable[str]) -> dict[str, str]:
    """The key of each trial's sample: its id without dots, since a key ends at the first one."""
    plain = {trial_id: trial_id.replace(".", "_") for trial_id in trial_ids}
    count = Counter(plain.values())
    return {
        trial_id: key if count[key] == 1 or key == trial_id else f"{key}-{_digest(trial_id)}"
        for trial_id, key in plain.items()
    }


def add_sample(
    tar: TarWriter, key: str, line: bytes, trial_dir: Path, *, left_out: LeftOut, check: Callable[[], None]
) -> int:
    """Add one trial.

    Args:
        tar: Where to.
        key: What the sample is called.
        line: The trial's record.
        trial_dir: What may be published of it.
        left_out: Is told of what no archive can hold.
        check: Called often; what it raises ends the writing.

    Returns:
        How many files of the trial are in it.
    """
    found = [*files_and_directories(trial_dir, left_out=left_out)] if trial_dir.is_dir() else []
    fields = {_FIELDS[entry.name]: entry for entry in found if entry.name in _FIELDS and entry.kind == "file"}
    tar.add_bytes(_name(key, RECORD), line)
    for field in (PATCH, TRAJECTORY):
        if field in fields:
            tar.add(_name(key, field), _plain(fields[field]), top=trial_dir)
        else:
            tar.add_bytes(_name(key, field), b"")
    taken = {entry.name for entry in fields.values()}
    others = [(entry.name, entry) for entry in found if entry.name not in taken]
    tar.begin(_name(key, FILES), length(others))
    inner = TarWriter(tar, check=check)
    for name, entry in others:
        inner.add(name, entry, top=trial_dir)
    inner.close()
    tar.end()
    return sum(entry.kind == "file" for entry in found)


def _name(key: str, field: str) -> bytes:
    return f"{key}.{field}".encode()


def _plain(entry: WalkEntry) -> WalkEntry:
    return WalkEntry(entry.name, "file", entry.size)


def _digest(trial_id: str) -> str:
    return hashlib.sha256(trial_id.encode("utf-8", "surrogatepass")).hexdigest()[:8]
