"""What an agent has done in a trial whose scoring failed: it may be scored again without the agent."""

from __future__ import annotations

import json
from pathlib import Path

from agentix.api import KeptAnswer, Usage
from agentix.cli.api import EARLIER_DIR, PATCH_FILE, TRAJECTORY_FILE, TRIAL_FILE, find_earlier, read_trial_file


def kept_answer(trial_dir: Path) -> KeptAnswer | None:
    """The answer of the last running that was set aside; `None` where it left none, or none that can be read."""
    aside = trial_dir / EARLIER_DIR
    numbers = [int(p.name) for p in aside.iterdir() if p.name.isdigit()] if aside.is_dir() else []
    place = aside / str(max(numbers, default=0))
    try:
        earlier = find_earlier(place)
        patch = b"" if earlier is not None and not (place / PATCH_FILE).exists() else (place / PATCH_FILE).read_bytes()
        record = read_trial_file(place / TRIAL_FILE).record
        trajectory = place / TRAJECTORY_FILE
        recorded = json.loads(trajectory.read_bytes()) if trajectory.exists() else None
    except (OSError, ValueError):
        return None
    return KeptAnswer(
        patch=patch.decode("utf-8", "surrogateescape"),
        earlier=earlier,
        ended=record.ended,
        usage=None if record.usage is None else Usage(**record.usage.model_dump()),
        agent_version=record.agent_version,
        image_digest=record.image_digest,
        trajectory=recorded,
    )
