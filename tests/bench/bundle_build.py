"""Building a bundle with a few packages, building it again after an edit, and building the base runtime."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

from table import Row, show

PACKAGES, MODULES = 20, 100
HEAD = ("Metadata-Version: 2.1",)
SOURCE = "def function(first, second=('some', 'text')):\n    return [first, second, first + second]\n\n\n"
REBUILDS = 5
RUNTIMES = 3
PYPROJECT = """
[build-system]
requires = []
build-backend = "mini"
backend-path = ["."]
[project]
name = "kit"
version = "1.0"
"""
BACKEND = """
import os, zipfile
def build_wheel(out, *_):
    with zipfile.ZipFile(os.path.join(out, "kit-1.0-py3-none-any.whl"), "w") as wheel:
        wheel.write("kit.py")
        wheel.write("METADATA", "kit-1.0.dist-info/METADATA")
        wheel.writestr("kit-1.0.dist-info/RECORD", "")
    return "kit-1.0-py3-none-any.whl"
"""


def rows() -> list[Row]:
    """The rows of this benchmark; nothing of it asks a package index."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        os.environ.update(
            AGENTIX_CACHE_DIR=str(place / "cache"), PIP_NO_INDEX="1", PIP_FIND_LINKS=str(place), PIP_NO_CACHE_DIR="1"
        )
        return _rows(place)


def _rows(place: Path) -> list[Row]:
    from agentix.bundle import build_bundle
    from agentix.bundle.runtime import build_runtime

    runtimes = []
    for _ in range(RUNTIMES):
        shutil.rmtree(place / "cache", ignore_errors=True)
        runtimes.append(_seconds(build_runtime))
    project = _project(place)
    first = _seconds(lambda: build_bundle(project, name="kit"))
    again = []
    for number in range(REBUILDS):
        (project / "kit.py").write_text(f"VALUE = {number}\n")
        again.append(_seconds(lambda: build_bundle(project, name="kit")))
    size = f"{PACKAGES} packages with {PACKAGES * MODULES} modules"
    return [
        Row(
            name=f"base runtime, built from nothing, the best of {RUNTIMES}",
            ours=min(runtimes),
            unit="s",
            better="less",
            target=5,
        ),
        Row(name=f"bundle, first build, {size}", ours=first, unit="s", better="less"),
        Row(
            name="bundle, again after an edit of its source",
            ours=statistics.median(again),
            unit="s",
            better="less",
            target=2,
        ),
    ]


def _project(place: Path) -> Path:
    project = place / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(PYPROJECT)
    (project / "mini.py").write_text(BACKEND)
    requires = [f"Requires-Dist: package{number}" for number in range(PACKAGES)]
    (project / "METADATA").write_text("\n".join([*HEAD, "Name: kit", "Version: 1.0", *requires]))
    (project / "kit.py").write_text("VALUE = None\n")
    for number in range(PACKAGES):
        stem = f"package{number}-1.0"
        with zipfile.ZipFile(place / f"{stem}-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
            for module in range(MODULES):
                wheel.writestr(f"package{number}/module{module}.py", SOURCE * 30)
            metadata = "\n".join([*HEAD, f"Name: package{number}", "Version: 1.0"])
            wheel.writestr(f"{stem}.dist-info/METADATA", metadata)
            wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{stem}.dist-info/RECORD", "")
    return project


def _seconds(function: Callable[[], object]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


if __name__ == "__main__":
    show(rows())
