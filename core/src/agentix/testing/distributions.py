"""Throwaway distributions, for tests of what is found when something is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def write_distribution(
    site: Path,
    *,
    name: str,
    version: str = "1.0",
    modules: Mapping[str, str] | None = None,
    entry_points: Mapping[str, Mapping[str, str]] | None = None,
    requires: Sequence[str] = (),
) -> Path:
    """Put a distribution into a directory as an installer would; a process with that on its path has it.

    Args:
        site: Directory in the role of `site-packages`.
        name: Name of the distribution.
        version: Its version.
        modules: Source texts by the names of files, such as `mine.py`.
        entry_points: `module:attr` by name, by group.
        requires: Lines of `Requires-Dist`.

    Returns:
        The distribution's metadata directory.
    """
    for file, source in (modules or {}).items():
        path = site / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    (info / "METADATA").write_text("\n".join([*lines, *(f"Requires-Dist: {r}" for r in requires)]) + "\n")
    groups = (entry_points or {}).items()
    (info / "entry_points.txt").write_text(
        "".join(f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) + "\n" for group, points in groups)
    )
    return info
