"""Import modules that are not installed: files that a user names, and modules of the working directory."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

_STAMP = "__agentix_stamp__"


def import_file(path: Path) -> ModuleType:
    """Import a file under a name that nothing else has; it can import its sibling modules.

    The same file gives the same module again, unless it has changed in between.

    Raises:
        FileNotFoundError: There is no such file.
        Exception: Whatever the file raises.
    """
    path = path.resolve(strict=True)
    stat = path.stat()
    stamp = (stat.st_mtime_ns, stat.st_size)
    name = f"agentix_file_{hashlib.sha256(str(path).encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"
    known = sys.modules.get(name)
    if known is not None and getattr(known, _STAMP, None) == stamp:
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python source file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _siblings(path.parent):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    setattr(module, _STAMP, stamp)
    return module


def import_module(name: str) -> ModuleType:
    """Import a module; one in the working directory is found after everything that is installed."""
    _search_last(Path.cwd())
    importlib.invalidate_caches()
    return importlib.import_module(name)


@contextlib.contextmanager
def _siblings(directory: Path) -> Iterator[None]:
    """Put a directory first on the path, as Python does for a script, and last afterwards.

    It stays there for imports inside functions, where it cannot hide anything. Modules of the same names
    that were loaded from elsewhere (the siblings of another file) step aside meanwhile.
    """
    aside = {name: sys.modules.pop(name) for name in _rivals(directory)}
    entry = str(directory)
    importlib.invalidate_caches()
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(entry)
        _search_last(directory)
        sys.modules.update(aside)


def _rivals(directory: Path) -> list[str]:
    files = {p.stem: p for p in directory.glob("*.py")} | {p.parent.name: p for p in directory.glob("*/__init__.py")}
    rivals = []
    for name, file in files.items():
        module = sys.modules.get(name)
        origin = getattr(module, "__file__", None)
        if origin and name not in sys.stdlib_module_names and name != "__main__" and Path(origin).resolve() != file:
            rivals += [n for n in sys.modules if n == name or n.startswith(f"{name}.")]
    return rivals


def _search_last(directory: Path) -> None:
    if str(directory) not in sys.path:
        sys.path.append(str(directory))
