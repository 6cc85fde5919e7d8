"""Lays out and precompiles the files of a base runtime."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from agentix.bundle.compiling import compile_sources
from agentix.bundle.interpreter import Interpreter, shared_libraries, stdlib_files
from agentix.bundle.packing import START, write_pack
from agentix.errors import HostError
from agentix.runtime import SERVER_ARGS

MOUNT_POINT = PurePosixPath("/agentix/runtime")

_LIMIT_S = 300
_GLIBC = ("libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1", "libm.so.6", "libresolv.so.2", "libanl.so.1")


def command(interpreter: Interpreter, *, top: PurePosixPath) -> tuple[str, ...]:
    """What starts the interpreter of the tree that lies at `top`, by its own loader and with no site packages."""
    executable = str(top / "bin" / interpreter.executable.name)
    flags = ("-I", "-S", "-B")
    if interpreter.loader is None:
        return (executable, *flags)
    # The loader passes the path that it was given as argv[0], from which the interpreter finds its library;
    # `--argv0` would say the same and is missing before glibc 2.33.
    return (str(top / "lib" / interpreter.loader.name), "--library-path", str(top / "lib"), executable, *flags)


def lay_out(top: Path, *, interpreter: Interpreter, server: Sequence[tuple[PurePosixPath, Path]]) -> dict[str, int]:
    """Fill an empty directory with a base runtime.

    Args:
        top: The directory.
        interpreter: What to copy.
        server: Modules to put beside the standard library, each with its place there.

    Returns:
        The size of each file in bytes, by its place.

    Raises:
        HostError: The copied interpreter does not start.
        OSError: A file cannot be written.
    """
    stdlib = top / sys.platlibdir / interpreter.stdlib.name
    # Without this directory the interpreter complains that it lacks its platform's library.
    (stdlib / "lib-dynload").mkdir(parents=True)
    _copy(interpreter.executable, top / "bin" / interpreter.executable.name)
    files = [*stdlib_files(interpreter), *server]
    extensions = [source for place, source in files if place.suffix == ".so"]
    libraries, unusable = shared_libraries([interpreter.executable, *extensions])
    if interpreter.loader is not None:
        libraries[interpreter.loader.name] = interpreter.loader
        libraries |= _rest_of_libc(libraries)
    for place, source in files:
        if source not in unusable:
            _copy(source, stdlib / place)
    for name, library in libraries.items():
        _copy(library, top / "lib" / name)
    compile_sources(
        [stdlib / place for place, _ in files if place.suffix == ".py"],
        interpreter=command(interpreter, top=PurePosixPath(top)),
        top=top,
        shown=str(MOUNT_POINT),
    )
    for place, _ in server:
        if place.name == f"{START}.py":
            write_pack((stdlib / place).parent, top=top, shown=MOUNT_POINT)
    _check(top, interpreter=interpreter)
    sizes = _open_to_readers(top)
    if interpreter.loader is not None:
        # The kernel lets nobody look into a process whose program its user may not read (ptrace(2)), which in a
        # sandbox with uids of its own spares the server the two milliseconds that asking for it by prctl takes.
        (top / "lib" / interpreter.loader.name).chmod(0o711)
    return sizes


def _rest_of_libc(libraries: Mapping[str, Path]) -> dict[str, Path]:
    """The other parts of glibc: extension modules of bundles need them, and all have to be of one version."""
    libc = libraries.get("libc.so.6")
    places = () if libc is None else (libc.with_name(name) for name in _GLIBC)
    return {path.name: path for path in places if path.is_file()}


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755)


def _check(top: Path, *, interpreter: Interpreter) -> None:
    load = SERVER_ARGS[1].removesuffix("main()") + "import _socket, select"
    program = (*command(interpreter, top=PurePosixPath(top)), SERVER_ARGS[0], load)
    try:
        run = subprocess.run(program, capture_output=True, check=False, cwd=top, env={}, timeout=_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise HostError(f"the copy of {interpreter.executable} does not end in {_LIMIT_S} s") from error
    if run.returncode:
        tail = run.stderr.decode("utf-8", "replace")[-2000:].strip()
        raise HostError(
            f"the copy of {interpreter.executable} does not start (exit {run.returncode}): {tail}",
            hint="run agentix with another Python, or report this with `agentix doctor`",
        )


def _open_to_readers(top: Path) -> dict[str, int]:
    """Undo what the umask took away, and measure."""
    sizes = {}
    for folder, _, names in os.walk(top):
        here = Path(folder)
        here.chmod(0o755)
        for name in names:
            path = here / name
            path.chmod(0o755 if here.name in ("bin", "lib") else 0o644)
            sizes[path.relative_to(top).as_posix()] = path.stat().st_size
    return sizes
