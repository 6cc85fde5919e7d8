"""The base runtime: an interpreter that needs nothing from the image it runs in."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import anyio.to_thread

from agentix.bundle.cache import cache_dir, cache_error, open_folder
from agentix.bundle.interpreter import Interpreter, find_interpreter, stdlib_files
from agentix.bundle.tree import MOUNT_POINT, command, lay_out
from agentix.errors import HostError
from agentix.models import RuntimeMount

FOLDER = "runtimes"
MANIFEST = "manifest.json"
UNFINISHED = ".new-"

# Part of the digest: a change of what a runtime consists of must give a new one.
_LAYOUT = "5"

# The answer for each cache directory, so that all calls but the first are free.
_READY: dict[Path, RuntimeMount] = {}


async def base_runtime() -> RuntimeMount:
    """The base runtime of this process's interpreter, built on the first call and cached by digest.

    Raises:
        HostError: It cannot be built here, or the cache cannot be used.
    """
    ready = _READY.get(cache_dir() / FOLDER)
    if ready is not None and (ready.path / MANIFEST).exists():
        return ready
    return await anyio.to_thread.run_sync(build_runtime)


def build_runtime() -> RuntimeMount:
    """The same, for synchronous callers, and looking at every file again."""
    folder = open_folder(FOLDER)
    interpreter, server = find_interpreter(), _server_files()
    digest = _digest(interpreter, server)
    path = folder / digest
    try:
        if not is_intact(path):
            _replace(path, interpreter=interpreter, server=server)
    except OSError as error:
        raise cache_error(folder, error) from error
    # A cache that was filled beforehand may be read-only.
    with contextlib.suppress(OSError):
        os.utime(path)
    _READY[folder] = RuntimeMount(path=path, digest=digest, argv=command(interpreter, top=MOUNT_POINT))
    return _READY[folder]


def current_digest() -> str:
    """The digest of the runtime that this process would use, whether it exists or not."""
    return _digest(find_interpreter(), _server_files())


def is_intact(path: Path) -> bool:
    """Whether every file of a runtime is there in its size."""
    try:
        sizes = json.loads((path / MANIFEST).read_bytes())
        return all(os.stat(f"{path}/{name}").st_size == size for name, size in sizes.items())  # noqa: PTH116
    except (OSError, ValueError, AttributeError):
        return False


def _replace(path: Path, *, interpreter: Interpreter, server: list[tuple[PurePosixPath, Path]]) -> None:
    with _locked(path.parent):
        if is_intact(path):
            return
        # Nobody else builds while this is locked: what is unfinished was left by a process that was killed.
        for left in path.parent.glob(f"{UNFINISHED}*"):
            shutil.rmtree(left, ignore_errors=True)
        fresh = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=path.parent))
        try:
            sizes = lay_out(fresh, interpreter=interpreter, server=server)
            (fresh / MANIFEST).write_text(json.dumps(sizes), encoding="utf-8")
            (fresh / MANIFEST).chmod(0o644)
            if path.exists():
                # Damaged: moved aside first, so that there is never a half-deleted one under this name.
                path.rename(fresh.with_name(f"{fresh.name}-damaged"))
                shutil.rmtree(fresh.with_name(f"{fresh.name}-damaged"), ignore_errors=True)
            fresh.rename(path)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _server_files() -> list[tuple[PurePosixPath, Path]]:
    spec = importlib.util.find_spec("agentix.runtime")
    if spec is None or not spec.submodule_search_locations:
        raise HostError("the package agentix.runtime is not installed", hint="install agentix-rollouts-core again")
    top = Path(next(iter(spec.submodule_search_locations)))
    place = PurePosixPath("agentix/runtime")
    return [(place / path.relative_to(top).as_posix(), path) for path in sorted(top.rglob("*.py"))]


def _digest(interpreter: Interpreter, server: list[tuple[PurePosixPath, Path]]) -> str:
    """Changes with the interpreter, with any file of its library and with the server's sources."""
    digest = hashlib.sha256(f"{_LAYOUT}\0{sys.version}\0{interpreter.executable}\0{interpreter.loader}\0".encode())
    for place, source in [(PurePosixPath("bin"), interpreter.executable), *stdlib_files(interpreter)]:
        status = source.stat()
        digest.update(f"{place}\0{status.st_size}\0{status.st_mtime_ns}\0".encode("utf-8", "surrogateescape"))
    for place, source in server:
        content = source.read_bytes()
        digest.update(f"{place}\0{len(content)}\0".encode("utf-8", "surrogateescape") + content)
    return digest.hexdigest()
