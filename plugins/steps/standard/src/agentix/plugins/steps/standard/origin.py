"""Which file a run is of, and since when it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any


def origin(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a report and a card say of it, in rows: the file's name without its place, its hash, the time.

    Args:
        manifest: The run's.
    """
    if manifest.get("file"):
        yield "file", PurePath(str(manifest["file"])).name
    for key in ("file_sha256", "created_at"):
        if manifest.get(key):
            yield key.replace("_", " "), str(manifest[key])
