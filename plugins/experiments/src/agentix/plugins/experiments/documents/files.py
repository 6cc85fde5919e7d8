"""Files that a file names."""

from __future__ import annotations

import os
from pathlib import Path


def identity(file: Path) -> Path:
    """The same for every way to name a file; unlike `Path.resolve`, also where links lead in a circle."""
    return Path(os.path.realpath(file))


def plain(file: Path) -> Path:
    """Without `..`, as far as no link makes that another file."""
    short = Path(os.path.normpath(file))
    return short if identity(short) == identity(file) else file
