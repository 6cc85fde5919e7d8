"""What is to be sent: how many files and bytes, and that rclone would take all of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agentix.api import ShipRefused, walk


@dataclass(frozen=True, kw_only=True)
class Size:
    """Of what is to be sent."""

    files: int
    bytes: int


def measure(source: Path) -> Size:
    """Count it.

    Raises:
        ShipRefused: It is not there, or has something in it that is no file, which rclone would follow or leave out.
    """
    files = total = 0
    try:
        for entry in walk(source):
            if entry.kind == "file":
                files, total = files + 1, total + entry.size
            elif entry.kind != "directory":
                where = entry.below(source)
                raise ShipRefused(
                    f"{where} is no plain file, and so it is not sent: take it out, or send an archive of it"
                )
    except FileNotFoundError:
        raise ShipRefused(f"there is nothing to send: {source} does not exist") from None
    except OSError as error:
        raise ShipRefused(f"it cannot be read, and so it is not sent: {error}") from error
    return Size(files=files, bytes=total)
