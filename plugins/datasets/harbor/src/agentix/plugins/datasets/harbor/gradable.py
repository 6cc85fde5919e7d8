"""What the tests of a separate verifier take of an agent's work, kept so that they may run again without the agent."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentix.api import HostError
from agentix.plugins.datasets.harbor.artifacts import Collected
from agentix.plugins.datasets.harbor.combine import StepResult


@dataclass(frozen=True, kw_only=True)
class Gradable:
    """The answer to the last stage of a task."""

    ended: str | None
    """How the agent ended in it."""
    before: tuple[StepResult, ...] = ()
    """What the steps before it gave."""
    collected: tuple[Collected, ...] = ()

    def write(self, directory: Path) -> dict[str, Any]:
        """As JSON, with paths from a directory on."""
        return {
            "ended": self.ended,
            "before": [{"name": step.name, "ended": step.ended, "score": step.score} for step in self.before],
            "collected": [
                {"source": one.source, "host": one.host.relative_to(directory).as_posix()} for one in self.collected
            ],
        }

    @classmethod
    def read(cls, data: Mapping[str, Any], directory: Path) -> Gradable:
        """From what `write` gave.

        Raises:
            HostError: Something of it is missing.
        """
        try:
            read = cls(
                ended=data["ended"],
                before=tuple(StepResult(**step) for step in data["before"]),
                collected=tuple(
                    Collected(source=one["source"], host=directory / one["host"]) for one in data["collected"]
                ),
            )
        except (KeyError, TypeError) as error:
            raise HostError(f"what {directory} has kept for the tests cannot be read: {error!r}") from error
        missing = next((one.host for one in read.collected if not one.host.exists()), None)
        if missing is not None:
            raise HostError(f"{missing} was kept for the tests and is gone", hint="run the trial again, with its agent")
        return read


def copy_kept(source: Path, target: Path, without: Path | None) -> None:
    """Copy what an attempt has kept of the agent and of steps before the last one; links stay links.

    Args:
        source: The attempt's directory.
        target: Another attempt's.
        without: What would lie there and is written anew.
    """
    for path in source.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, target / path.name, symlinks=True, dirs_exist_ok=True)
    if without is not None:
        shutil.rmtree(without, ignore_errors=True)
