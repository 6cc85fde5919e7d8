"""Brings along the shared libraries that machine code needs, so that it needs none of the image."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from agentix.bundle.interpreter import loader_of, shared_libraries
from agentix.bundle.launcher import write_launcher
from agentix.errors import BundleError, HostError

_AT_ONCE = 200
_ELF = b"\x7fELF"

_LAUNCHER = 'exec "$here/lib/{loader}" --library-path "$here/lib" "$here/{name}.elf" "$@"'


def is_elf(path: Path) -> bool:
    """Whether a file is machine code."""
    with path.open("rb") as file:
        return file.read(4) == _ELF


def bring_libraries(site: Path, lib: Path, *, have: frozenset[str]) -> list[str]:
    """Copy what the extension modules below `site` need and do not bring themselves.

    Args:
        site: Where the modules lie.
        lib: Where the libraries go.
        have: Names of libraries that the base runtime has.

    Returns:
        A note for each module whose libraries this machine lacks.
    """
    modules = [path for path in site.rglob("*.so*") if path.is_file() and not path.is_symlink() and is_elf(path)]
    notes = []
    inside = site.resolve()
    for batch in _batches(modules):
        found, lacking = shared_libraries(batch)
        for name, source in sorted(found.items()):
            own = source.resolve().is_relative_to(inside) or (lib / name).exists()
            if name not in have and not own:
                lib.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, lib / name)
        notes += [
            f"{path.relative_to(site)} needs shared libraries that this machine does not have"
            for path in sorted(lacking)
        ]
    return notes


def copy_portable(program: Path, folder: Path, *, name: str) -> Path:
    """Copy a program with its loader and libraries, and write a launcher that starts it.

    Args:
        program: The program.
        folder: A directory of its own.
        name: What to call it.

    Returns:
        The launcher; the program itself where it needs no libraries.

    Raises:
        BundleError: It is no ELF program, or lacks a library.
    """
    folder.mkdir(parents=True)
    try:
        loader = loader_of(program)
    except HostError:
        raise BundleError(f"{program} is no ELF program, so that its libraries cannot be told") from None
    target = folder / name
    if loader is None:
        shutil.copyfile(program, target)
        target.chmod(0o755)
        return target
    found, lacking = shared_libraries([program])
    if lacking:
        raise BundleError(
            f"{program} needs shared libraries that this machine does not have", hint=f"see ldd {program}"
        )
    (folder / "lib").mkdir()
    for library, source in {**found, loader.name: loader}.items():
        shutil.copyfile(source, folder / "lib" / library)
    (folder / "lib" / loader.name).chmod(0o755)
    shutil.copyfile(program, folder / f"{name}.elf")
    (folder / f"{name}.elf").chmod(0o755)
    write_launcher(target, _LAUNCHER.format(loader=loader.name, name=name))
    return target


def _batches(paths: Iterable[Path]) -> Iterator[list[Path]]:
    rest = iter(paths)
    while batch := list(islice(rest, _AT_ONCE)):
        # For a single file, ldd does not print which one it is about; the answer is then read as that file's.
        yield batch
