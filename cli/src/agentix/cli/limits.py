"""How many trials a run may have, and how many at once."""

from __future__ import annotations

import resource

MOST_TRIALS = 1_000_000
"""Trials of one run: each is planned before the first starts, and has a directory of its own."""
_OWN_FILES = 48
_FILES_PER_TRIAL = 8


def raise_open_files() -> int:
    """Raise the limit of open files as far as it may be raised, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            return soft
    return hard


def width_for(open_files: int) -> int:
    """How many trials at a time so many open files are enough for."""
    if open_files == resource.RLIM_INFINITY:
        return 1_000_000
    return max(1, (open_files - _OWN_FILES) // _FILES_PER_TRIAL)
