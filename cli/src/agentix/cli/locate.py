"""Which run, and which trial of it, an argument names."""

from __future__ import annotations

import difflib
from pathlib import Path

from agentix.errors import RunError
from agentix.records import Run, load_run


def locate(text: str, *, out: Path) -> tuple[Run, str | None]:
    """The run and the trial, if one is named.

    Args:
        text: `RUN`, `RUN/TRIAL`, or a path to a run's or a trial's directory.
        out: Where runs are that are named by their id.

    Raises:
        RunError: There is no such run or trial.
    """
    path = Path(text)
    run = _run(path, out)
    if run is not None:
        return run, None
    run = _run(path.parent, out) or (_run(path.parent.parent, out) if path.parent.name == "trials" else None)
    if run is None:
        raise RunError(f"there is no run {text!r}", hint=_near(path.name, out))
    if not run.layout.trial(path.name).is_dir():
        names = [entry.name for entry in run.layout.trials.iterdir()] if run.layout.trials.is_dir() else []
        near = ", ".join(difflib.get_close_matches(path.name, names, n=3))
        raise RunError(f"the run {run.path} has no trial {path.name!r}", hint=f"near: {near}" if near else None)
    return run, path.name


def _run(path: Path, out: Path) -> Run | None:
    for candidate in (path, out / path):
        if str(path) not in ("", ".") and candidate.exists():
            try:
                return load_run(candidate)
            except RunError:
                continue
    return None


def _near(name: str, out: Path) -> str:
    names = sorted(entry.name for entry in out.iterdir() if entry.is_dir()) if out.is_dir() else []
    near = difflib.get_close_matches(name, names, n=3) or names[-3:]
    more = ", …" if len(near) < len(names) else ""
    return f"Runs in {out}: {', '.join(near)}{more}" if near else f"There are no runs in {out}."
