"""The trial.json of a copy: without secrets, and true about the files beside it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agentix.api import RecordsDamaged, Redactor, Run

NAME = "trial.json"
_CHUNK = 1 << 20


def redact_trial_file(
    source: Path, copy: Path, *, trial_id: str, redactor: Redactor, renamed: Mapping[str, str]
) -> Counter[str]:
    """Write the trial.json of a copy.

    Args:
        source: The trial's directory.
        copy: The directory of the copy, in which all other files are already; it is `trials/ID` of some directory.
        trial_id: The trial.
        redactor: Takes secrets out.
        renamed: New places of files whose names held something, by the names without it.

    Returns:
        What was taken out.

    Raises:
        RecordsDamaged: It is none, or is none any more without its secrets.
        OSError: It cannot be read or written.
    """
    counts: Counter[str] = Counter()
    try:
        data = json.loads((source / NAME).read_bytes())
    except FileNotFoundError:
        return counts
    except (ValueError, RecursionError):
        raise RecordsDamaged(f"{NAME} is no JSON, so what is said in it cannot be published") from None
    listed = data.pop("files", None) if isinstance(data, dict) else None
    clean = redactor.data(data, counts=counts)
    if isinstance(listed, dict) and isinstance(clean, dict):
        names = (redactor.text(name, ips=False) for name in listed)
        clean |= _files([renamed.get(name, name) for name in names], copy)
    (copy / NAME).write_bytes(json.dumps(clean, ensure_ascii=False, allow_nan=False, indent=2).encode() + b"\n")
    (copy / NAME).chmod(0o644)
    # What takes secrets out may have taken out what makes it a record.
    try:
        Run(copy.parent.parent).trial(trial_id)
    except RecordsDamaged:
        raise RecordsDamaged(
            f"{NAME} is no record any more without what is taken out of it",
            hint="A pattern or a secret matches names of its keys: make it more specific.",
        ) from None
    return counts


def _files(places: Iterable[str], copy: Path) -> dict[str, Any]:
    """What the copies are; a file that was refused has none."""
    found = {place: _about(copy / place) for place in places if _is_file(copy, place)}
    return {"files": found} if found else {}


def _is_file(copy: Path, place: str) -> bool:
    return ".." not in Path(place).parts and not Path(place).is_absolute() and (copy / place).is_file()


def _about(path: Path) -> dict[str, Any]:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return {"bytes": size, "sha256": digest.hexdigest()}
