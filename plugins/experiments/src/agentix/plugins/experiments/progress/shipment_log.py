"""`shipments.jsonl`: everything that was sent somewhere, or was to be, in the order in which it happened."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from agentix.cli.api import log

SHIPMENTS = "shipments.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipmentLine:
    """One shipment of a step, of a trial or of the whole run."""

    at: str
    """When it ended, in UTC."""
    step: str
    """Its label."""
    ok: bool
    """Whether it has arrived."""
    trial_id: str | None = None
    """`None` where it was of the whole run."""
    case: str | None = None
    with_: str = ""
    """What ships: a plugin with its version, or a configured command."""
    path: str | None = None
    """What went, in the run's directory; `None` where it did not come to that."""
    files: int | None = None
    bytes: int | None = None
    destination: str | None = None
    """Where to, as far as that was said."""
    withheld: int = 0
    """How many trials were no part of it."""
    message: str = ""


class ShipmentLog:
    """Adds lines to the file. A line that the disk does not take is no reason for anything to fail.

    Args:
        path: The file; its directory exists when the first line is added.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def add(self, line: ShipmentLine) -> None:
        """Add a line."""
        data = {key: value for key, value in asdict(line).items() if value is not None}
        try:
            if self._fd is None:
                self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
                length = os.fstat(self._fd).st_size
                if length and os.pread(self._fd, 1, length - 1) != b"\n":
                    os.write(self._fd, b"\n")  # whoever wrote the last one was killed
            os.write(self._fd, json.dumps(data, separators=(",", ":")).encode() + b"\n")
        except OSError as error:
            log.warning("%s: %s", self._path, error.strerror)

    def close(self) -> None:
        """Close it; it may be added to again."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)


def read_shipments(path: Path) -> Iterator[ShipmentLine]:
    """The lines that there are; half a line, and one that is none of ours, is passed over."""
    try:
        with path.open("rb") as file:
            for raw in file:
                try:
                    yield ShipmentLine(**json.loads(raw))
                except (ValueError, TypeError):
                    continue
    except OSError:
        return
