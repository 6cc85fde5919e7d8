"""Makes full garbage collections rarer while thousands of trials run.

A full collection looks at every object that lives, with the event loop standing still: half a second for 2,000
trials. The interpreter makes one for every so many younger collections, however long it takes.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

TRIALS_PER_STEP = 10
"""For how many trials at once one more younger collection has to come first."""


@contextmanager
def rarer(width: int) -> Iterator[None]:
    """Let full collections wait for more younger ones, as long as the context is open.

    Args:
        width: How many trials run at once.
    """
    before = gc.get_threshold()
    changed = (*before[:2], max(before[2], width // TRIALS_PER_STEP))
    gc.set_threshold(*changed)
    try:
        yield
    finally:
        # Another run, or the program itself, may have set something else since.
        if gc.get_threshold() == changed:
            gc.set_threshold(*before)
