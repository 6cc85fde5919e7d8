"""The adapters that `agentix new adapters` writes: plain executables on the environment contract."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

from agentix.api import UsageError

NAMES = ("harbor.sh", "ship-rclone.sh", "ship-github.sh", "step-tool.sh", "step-model.sh")


def write_adapters(directory: Path) -> tuple[Path, ...]:
    """Write the adapters into a directory, all of them or none.

    Args:
        directory: Made where it does not exist.

    Raises:
        UsageError: One of them is there already; nothing was written.
    """
    paths = tuple(directory / name for name in NAMES)
    there = [path.name for path in paths if os.path.lexists(path)]
    if there:
        raise UsageError(
            f"{directory} has {', '.join(there)} already; nothing was written",
            hint="Name another directory, or move them away first.",
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise UsageError(f"{directory} is no directory") from None
    source = files("agentix.plugins.experiments.command_line").joinpath("adapter_files")
    for path in paths:
        # As new and executable in one step: whatever appeared there meanwhile is not overwritten.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o777)
        with os.fdopen(descriptor, "wb") as file:
            file.write(source.joinpath(path.name).read_bytes())
    return paths
