"""Running a part of the cases."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from agentix.api import Case, UsageError
from agentix.plugins.experiments.documents import nearest


def select_cases(cases: Sequence[Case], *, patterns: Sequence[str] = (), limit: int | None = None) -> tuple[Case, ...]:
    """The cases that are wanted, in their order.

    Args:
        cases: All of them.
        patterns: Names or labels, or globs for them; all cases by default.
        limit: The first so many of what is left.

    Raises:
        UsageError: A pattern matches no case.
    """
    for pattern in patterns:
        if not any(_matches(case, pattern) for case in cases):
            near = nearest(pattern, [case.name for case in cases] + [case.label for case in cases])
            hint = "`agentix cases FILE` lists them." if near is None else f"Did you mean {near!r}?"
            raise UsageError(f"--case {pattern}: no case matches", hint=hint)
    chosen = [case for case in cases if not patterns or any(_matches(case, pattern) for pattern in patterns)]
    return tuple(chosen if limit is None else chosen[:limit])


def _matches(case: Case, pattern: str) -> bool:
    return any(text == pattern or fnmatchcase(text, pattern) for text in (case.name, case.label))
