"""The layer of a project's dependencies."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from agentix.bundle.compiling import compile_modules
from agentix.bundle.layer import Layer, kept_layer
from agentix.bundle.libraries import bring_libraries
from agentix.bundle.listing import hash_file
from agentix.bundle.locked import Dependencies, local_path
from agentix.bundle.pip import run_pip
from agentix.bundle.store import Store
from agentix.bundle.wheel import unpack_wheel

_LAYOUT = "1"
# What pip is told by its environment changes where packages come from.
_SETTINGS = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_PRE", "PIP_CONSTRAINT")


def packages_layer(
    dependencies: Dependencies, *, store: Store, runtime: frozenset[str], work: Path, refresh: bool = False
) -> Layer:
    """Fetch and unpack what a project depends on, or take what was unpacked before.

    Args:
        dependencies: What to fetch.
        store: Where layers are kept.
        runtime: Names of shared libraries that the base runtime has.
        work: A directory for this build.
        refresh: Fetch again, which matters where there is no lock.

    Raises:
        BundleError: A package cannot be had.
    """

    def make(tree: Path) -> list[str]:
        wheels = work / "wheels"
        for number, lines in enumerate(dependencies.batches):
            _fetch(lines, wheels, number=number, exact=dependencies.exact, work=work)
        (tree / "site").mkdir()
        for wheel in sorted(wheels.glob("*.whl")):
            unpack_wheel(wheel, tree / "site")
        compile_modules(tree)
        return bring_libraries(tree / "site", tree / "lib", have=runtime)

    return kept_layer(store, _key(dependencies, runtime), make, work=work, refresh=refresh)


def _fetch(lines: tuple[str, ...], wheels: Path, *, number: int, exact: bool, work: Path) -> None:
    file = work / f"requirements-{number}.txt"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    arguments = ["--quiet", "--wheel-dir", str(wheels), "--requirement", str(file)]
    run_pip("wheel", [*(("--no-deps",) if exact else ()), *arguments], work=work, what="fetching the dependencies")


def _key(dependencies: Dependencies, runtime: frozenset[str]) -> str:
    digest = hashlib.sha256()
    words = [_LAYOUT, sys.version, platform.machine(), *platform.libc_ver(), str(dependencies.exact), *sorted(runtime)]
    words += [f"{name}={os.environ.get(name, '')}" for name in _SETTINGS]
    for number, batch in enumerate(dependencies.batches):
        words += [f"batch {number}", *batch]
        words += [hash_file(path) for path in map(_file_of, batch) if path is not None and path.is_file()]
    for word in words:
        digest.update(f"{word}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:40]


def _file_of(line: str) -> Path | None:
    """The file of this machine that a requirement names."""
    try:
        return local_path(Requirement(line.partition(" --")[0]).url or "")
    except InvalidRequirement:
        return None
