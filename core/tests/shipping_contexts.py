"""Contexts in which transports are tried, shared by their tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentix.api import Scope, StepContext


def contexts(directory: Path) -> Callable[..., StepContext]:
    """Makes contexts with `run` and `work` below a directory; what is said goes into the list that is given."""

    def make(said: list[str] | None = None, **given: Any) -> StepContext:
        work, run = directory / "work", directory / "run"
        work.mkdir(exist_ok=True)
        run.mkdir(exist_ok=True)
        values: dict[str, Any] = {
            "scope": Scope.PER_EXPERIMENT,
            "run_id": "r1",
            "run_dir": run,
            "work_dir": work,
            "experiment": "nightly",
            "say": (said if said is not None else []).append,
        }
        return StepContext(**(values | given))

    return make
