"""run.log: what happened in a run, with times."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

log = logging.getLogger("agentix.run")
# What is logged here was shown already: before there is a file, logging would print it to stderr once more.
log.addHandler(logging.NullHandler())


class _Handler(logging.FileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """A log that cannot be written ends nothing."""


@contextmanager
def logging_to(path: Path, *, verbose: bool = False) -> Iterator[None]:
    """Append everything that is logged in this process to a file.

    Args:
        path: The file.
        verbose: Also what is meant for debugging.
    """
    root = logging.getLogger()
    handler = _Handler(path, encoding="utf-8", errors="backslashreplace", delay=True)
    formatter = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        # It hands on what it holds, which the disk may refuse.
        with suppress(OSError):
            handler.close()
