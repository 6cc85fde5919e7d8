"""Names in a run directory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from agentix.errors import RunError, UsageError

RUN_NAMES = frozenset(
    {
        ".lock",
        ".staging",
        "cases",
        "experiment.yaml",
        "gate",
        "manifest.json",
        "progress.json",
        "rescored",
        "results.jsonl",
        "run.log",
        "shipments.jsonl",
        "steps",
        "trials",
    }
)
"""Names at the top of a run's directory that are the run's own, and that nothing else may get."""

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@=-]{0,127}")


@dataclass(frozen=True)
class Layout:
    """Where the files of one run are."""

    root: Path

    @property
    def manifest(self) -> Path:
        """What the run was asked to do."""
        return self.root / "manifest.json"

    @property
    def results(self) -> Path:
        """One record a line."""
        return self.root / "results.jsonl"

    @property
    def progress(self) -> Path:
        """How far the run is, replaced as it goes on."""
        return self.root / "progress.json"

    @property
    def log(self) -> Path:
        """What happened, with times."""
        return self.root / "run.log"

    @property
    def lock(self) -> Path:
        """Names the process that writes here."""
        return self.root / ".lock"

    @property
    def trials(self) -> Path:
        """One directory a trial."""
        return self.root / "trials"

    @property
    def rescored(self) -> Path:
        """Result sets of later scorings, beside the first one."""
        return self.root / "rescored"

    def trial(self, trial_id: str) -> Path:
        """The directory of one trial.

        Raises:
            RunError: The id is no plain file name.
        """
        if trial_id in ("", ".", "..") or "/" in trial_id or "\0" in trial_id:
            raise RunError(f"{trial_id!r} is no trial id: it cannot name a directory")
        return self.trials / trial_id


def check_run_id(run_id: str, *, where: str = "--id") -> str:
    """The id, if it can name a directory everywhere.

    Raises:
        UsageError: It cannot.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise UsageError(
            f"{where}: {run_id!r} cannot name a run",
            hint="Use up to 128 letters, digits and . _ + @ = -, beginning with a letter or a digit.",
        )
    return run_id
