"""The trajectory of a trial that the Harbor CLI has run: one, also where each step of the task has its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentix.api import TrajectoryError, Usage, check_trajectory, read_trajectory

_FILE = "agent/trajectory.json"
_LARGEST = 256 << 20


def bring_trajectory(trial: Path, steps: Sequence[str]) -> tuple[dict[str, Any] | None, Usage | None, list[str]]:
    """The trajectory, what it says was spent, and what is to be said of it.

    Args:
        trial: The directory of Harbor's trial.
        steps: Names of the task's steps, in order; none for a task of one.
    """
    places = [f"steps/{name}/{_FILE}" for name in steps] or [_FILE]
    parts: list[dict[str, Any]] = []
    notes: list[str] = []
    for place in places:
        path = trial / place
        # What lies there was written by the agent.
        if not path.is_file() or path.is_symlink() or not path.resolve().is_relative_to(trial.resolve()):
            continue
        if path.stat().st_size > _LARGEST:
            notes.append(f"{place} is left where it is: it has {path.stat().st_size} bytes")
            continue
        try:
            parts.append(read_trajectory(path))
        except (TrajectoryError, OSError, ValueError) as error:
            said = str(error).replace(f"{trial}/", "").splitlines()[0]
            notes.append(f"{place} is no trajectory in the ATIF format: {said}")
    if not parts:
        return None, None, notes
    whole = _joined(parts)
    return whole, check_trajectory(whole).usage, notes


def _joined(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if len(parts) == 1:
        return parts[0]
    steps = [step for part in parts for step in part["steps"]]
    whole = {key: value for key, value in parts[0].items() if key != "final_metrics"}
    whole["steps"] = [{**step, "step_id": number} for number, step in enumerate(steps, 1)]
    totals = [part.get("final_metrics") or {} for part in parts]
    summed: dict[str, Any] = {
        # One that a part does not know is not known of the whole.
        name: sum(total[name] for total in totals)
        for name in ("total_prompt_tokens", "total_completion_tokens", "total_cached_tokens", "total_cost_usd")
        if all(total.get(name) is not None for total in totals)
    }
    return {**whole, "final_metrics": {**summed, "total_steps": len(steps)}}
