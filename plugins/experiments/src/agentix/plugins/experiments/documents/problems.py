"""What is wrong with an experiment file: each problem with its place, all of them in one error."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agentix.api import UsageError
from agentix.cli.api import short

_LONGEST = 10_000


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong."""

    file: Path
    """As the user named it."""
    line: int | None
    """From 1; `None` where it is about the whole file."""
    path: str
    """As the user wrote it, such as `matrix.agents[0].trials`; empty for a whole document."""
    message: str
    nearest: str | None = None
    """The valid name that may have been meant."""

    def __str__(self) -> str:
        place = f"{self.file}" if self.line is None else f"{self.file}:{self.line}"
        said = f"{self.path}: {self.message}" if self.path else self.message
        return f"{place}: {said}" + (f"; did you mean {self.nearest!r}?" if self.nearest else "")


class ExperimentError(UsageError):
    """An experiment file cannot be run.

    Args:
        problems: All that is wrong with it.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        ordered = sorted(dict.fromkeys(problems), key=lambda p: (str(p.file), p.line or 0))
        self.problems = tuple(ordered)
        listed = "\n".join(f"  {problem}" for problem in ordered)
        count = len(ordered)
        files = list(dict.fromkeys(str(problem.file) for problem in ordered))
        super().__init__(f"{count} problem{'s' if count != 1 else ''} in {', '.join(files)}:\n{listed}")


def with_hint(text: str, hint: str | None) -> str:
    """What is wrong and what to do, on one line."""
    return short(f"{text}\n{hint or ''}", _LONGEST)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant; neither case nor the kind of dash decides."""
    folded = {_fold(one): one for one in known}
    matches = difflib.get_close_matches(_fold(name), folded, n=1)
    return folded[matches[0]] if matches else None


def _fold(name: str) -> str:
    return name.casefold().replace("-", "_").replace(" ", "_")
