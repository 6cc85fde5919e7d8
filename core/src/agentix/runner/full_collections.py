"""Makes full garbage collections rarer while thousands of trials run.

A full collection looks at every object that lives, with the event loop standing still: half a second for 2,000
trials. The interpreter makes one for every so many younger collections, however long it takes.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

TRIALS_PER_STEP = 10
"""For how many trials at once one more younger collection has to come first."""


class _Threshold:
    """The one setting that the interpreter has, for all runs of this process together.

    It cannot belong to a single run: of two that overlap, the first to start may be the first to end.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._widths: dict[object, int] = {}
        self._before = self._made = gc.get_threshold()

    def add(self, run: object, width: int) -> None:
        with self._lock:
            self._notice()
            self._widths[run] = width
            self._make()

    def remove(self, run: object) -> None:
        with self._lock:
            self._notice()
            del self._widths[run]
            self._make()

    def _notice(self) -> None:
        """What the program has set meanwhile holds, whatever runs."""
        found = gc.get_threshold()
        if not self._widths or found != self._made:
            self._before = found
            self._widths = dict.fromkeys(self._widths, 0)

    def _make(self) -> None:
        rarest = max(self._widths.values(), default=0) // TRIALS_PER_STEP
        gc.set_threshold(*self._before[:2], max(self._before[2], rarest))
        # Some interpreters leave the last one aside.
        self._made = gc.get_threshold()


_THRESHOLD = _Threshold()


@contextmanager
def rarer(width: int) -> Iterator[None]:
    """Let full collections wait for more younger ones, as long as the context is open.

    Args:
        width: How many trials run at once.
    """
    run = object()
    _THRESHOLD.add(run, width)
    try:
        yield
    finally:
        _THRESHOLD.remove(run)
