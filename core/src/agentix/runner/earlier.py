"""What a dataset that drives its own flow has kept of an agent's work, as a file of the attempt."""

from __future__ import annotations

import json
from pathlib import Path

from agentix.interfaces import Earlier

KEPT_FILE = "kept.json"


def write_earlier(earlier: Earlier) -> None:
    """Write it where `find_earlier` finds it.

    Raises:
        OSError: It cannot be written.
    """
    text = json.dumps(earlier.data, allow_nan=False) + "\n"
    (earlier.directory / KEPT_FILE).write_text(text, encoding="utf-8")


def find_earlier(trial_dir: Path) -> Earlier | None:
    """What the last attempt of a trial has kept; `None` where it kept nothing, or nothing that can be read."""
    attempts = trial_dir / "attempts"
    try:
        last = max((path for path in attempts.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
        data = json.loads((last / KEPT_FILE).read_bytes())
    except (OSError, ValueError):
        return None
    return Earlier(directory=last, data=data) if isinstance(data, dict) else None
