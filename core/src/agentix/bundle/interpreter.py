"""What this process's interpreter consists of: the executable, its standard library, its shared libraries."""

from __future__ import annotations

import os
import platform
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agentix.errors import HostError

_LEFT_OUT_DIRS = frozenset(
    {"__pycache__", "dist-packages", "ensurepip", "idlelib", "site-packages", "test", "tests", "tkinter", "turtledemo"}
)
_LEFT_OUT_SUFFIXES = (".a", ".o", ".pyc", ".exe")
_LEFT_OUT_MODULES = ("_test", "_tkinter", "_ctypes_test", "xxlimited")
_PT_INTERP = 3


@dataclass(frozen=True, kw_only=True)
class Interpreter:
    """An interpreter found on the host."""

    executable: Path
    loader: Path | None
    """The dynamic loader that the executable names; `None` where it is linked statically."""
    stdlib: Path
    dynload: Path
    """Directory of the extension modules; often `stdlib/lib-dynload`."""

    @property
    def version(self) -> str:
        """Major and minor version, as in the name of the library directory."""
        return f"{sys.version_info[0]}.{sys.version_info[1]}"


def find_interpreter() -> Interpreter:
    """The interpreter below this process's virtual environment, if it runs in one.

    Raises:
        HostError: This platform's interpreter cannot run inside a sandbox.
    """
    if platform.system() != "Linux" or sys.implementation.name != "cpython":
        what = f"{platform.python_implementation()} on {platform.system()}"
        raise HostError(
            f"the sandbox runtime cannot be built from {what}",
            hint="run agentix with CPython on Linux",
        )
    executable = Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()
    stdlib = Path(os.__file__).resolve().parent
    dynload = Path(sys.base_exec_prefix) / sys.platlibdir / stdlib.name / "lib-dynload"
    if not dynload.is_dir():
        dynload = stdlib / "lib-dynload"
    return Interpreter(executable=executable, loader=loader_of(executable), stdlib=stdlib, dynload=dynload)


def stdlib_files(interpreter: Interpreter) -> Iterator[tuple[PurePosixPath, Path]]:
    """Files of the standard library, each with its place below `lib/pythonX.Y`, sorted."""
    yield from _files(interpreter.stdlib, skip=interpreter.dynload)
    if interpreter.dynload.is_dir():
        for place, source in _files(interpreter.dynload, skip=None):
            if not place.name.startswith(_LEFT_OUT_MODULES):
                yield "lib-dynload" / place, source


def _files(top: Path, *, skip: Path | None) -> Iterator[tuple[PurePosixPath, Path]]:
    for folder, folders, names in os.walk(top):
        here = Path(folder)
        folders[:] = sorted(
            name
            for name in folders
            if name not in _LEFT_OUT_DIRS and not name.startswith("config-") and here / name != skip
        )
        for name in sorted(names):
            source = here / name
            # A distribution may link to files that are not installed.
            if not name.endswith(_LEFT_OUT_SUFFIXES) and source.is_file():
                yield PurePosixPath(source.relative_to(top).as_posix()), source


def shared_libraries(files: Iterable[Path]) -> tuple[dict[str, Path], set[Path]]:
    """Ask the loader for the closure of shared libraries.

    Returns:
        The libraries by name, and those files that lack one.

    Raises:
        HostError: There is no `ldd`.
    """
    paths = [str(path) for path in files]
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"} | {"LC_ALL": "C"}
    try:
        answer = subprocess.run(["ldd", *paths], capture_output=True, text=True, check=False, env=environment)
    except OSError as error:
        raise HostError("the sandbox runtime cannot be built: ldd does not run", hint=str(error)) from error
    found: dict[str, Path] = {}
    lacking: set[Path] = set()
    current = Path(paths[0])
    for line in answer.stdout.splitlines():
        if not line[:1].isspace() and line.endswith(":"):
            current = Path(line[:-1])
            continue
        name, arrow, where = line.strip().partition(" => ")
        if arrow and where.startswith("not found"):
            lacking.add(current)
        elif arrow and where.startswith("/"):
            found.setdefault(PurePosixPath(name).name, Path(where.rsplit(" (", 1)[0]))
        elif name.startswith("/"):
            library = Path(name.rsplit(" (", 1)[0])
            found.setdefault(library.name, library)
    return found, lacking


def loader_of(executable: Path) -> Path | None:
    """The name in the PT_INTERP header of an ELF executable (System V ABI, program header)."""
    with executable.open("rb") as file:
        head = file.read(64)
        if head[:4] != b"\x7fELF":
            raise HostError(f"{executable} is not an ELF executable, so no sandbox runtime can be built from it")
        wide, order = head[4] == 2, "<" if head[5] == 1 else ">"
        (offset,) = struct.unpack_from(f"{order}{'Q' if wide else 'I'}", head, 32 if wide else 28)
        size, count = struct.unpack_from(f"{order}HH", head, 54 if wide else 42)
        for index in range(count):
            file.seek(offset + index * size)
            header = file.read(size)
            if struct.unpack_from(f"{order}I", header)[0] == _PT_INTERP:
                word = f"{order}{'Q' if wide else 'I'}"
                (place,) = struct.unpack_from(word, header, 8 if wide else 4)
                (length,) = struct.unpack_from(word, header, 32 if wide else 16)
                file.seek(place)
                return Path(os.fsdecode(file.read(length).rstrip(b"\0")))
    return None
