"""What a plugin of the user's own is made from: its source files, and the files that its options name."""

from __future__ import annotations

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from agentix.cli.request import PluginRequest
from agentix.records import PluginUse
from agentix.registry.kinds import Kind
from agentix.registry.references import FileRef, ModuleRef, parse_reference


def plugin_use(kind: Kind, request: PluginRequest, plugin: object) -> PluginUse:
    """How a run uses a plugin, with hashes of what may be edited between two sessions.

    Args:
        kind: Of the plugin.
        request: What the user typed.
        plugin: What was loaded for it.
    """
    parsed = parse_reference(kind, request.ref, where=f"--{kind}")
    own: list[Path] = []
    if isinstance(parsed, FileRef):
        own = [parsed.path.resolve()]
    elif isinstance(parsed, ModuleRef):
        own = _own_sources(parsed.module)
    return PluginUse.of(
        request.ref,
        request.options,
        sha256=_hash(_with_siblings(own)) if own else None,
        files=_option_files(getattr(plugin, "Config", None), request.options),
    )


def _own_sources(module: str) -> list[Path]:
    """The file of a module, and the package around it, where it is not installed: no version tells those apart."""
    file = _file_of(module)
    installed = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib", "stdlib")}
    if file is None or any(file.is_relative_to(place) for place in installed):
        return []
    package = _file_of(module.partition(".")[0])
    around = sorted(package.parent.rglob("*.py")) if package is not None and package.name == "__init__.py" else []
    return [file, *around]


def _file_of(module: str) -> Path | None:
    origin = getattr(sys.modules.get(module), "__file__", None)
    return None if origin is None else Path(origin).resolve()


def _with_siblings(files: list[Path]) -> list[Path]:
    """These files and the modules beside the first one that they import, and those that these import."""
    beside = files[0].parent
    found: dict[Path, None] = {}
    waiting = list(reversed(files))
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found[file] = None
        for name in _imports(file):
            if (beside / name / "__init__.py").is_file():
                waiting += sorted((beside / name).rglob("*.py"))
            elif (beside / f"{name}.py").is_file():
                waiting.append(beside / f"{name}.py")
    return list(found)


def _imports(file: Path) -> Iterable[str]:
    """The top-level names that a file imports, inside functions too."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def _hash(files: list[Path]) -> str:
    """One hash of one or several files, that of the content alone where it is one."""
    first = hashlib.sha256(files[0].read_bytes())
    for file in sorted(files[1:]):
        first.update(f"\0{file.name}\0".encode("utf-8", "surrogateescape"))
        first.update(hashlib.sha256(file.read_bytes()).digest())
    return first.hexdigest()


def _option_files(config: Any, options: Mapping[str, object]) -> dict[str, str]:
    """The hashes of the files that options of a path's type name."""
    fields = getattr(config, "model_fields", None)
    if not isinstance(fields, Mapping):
        return {}
    hashes = {}
    for key, value in options.items():
        field = fields.get(key) or fields.get(key.replace("-", "_"))
        if field is None or not _is_path(field.annotation):
            continue
        named = value if isinstance(value, list) else [value]
        try:
            files = [Path(item) for item in named if isinstance(item, str | Path) and Path(item).is_file()]
            if files:
                hashes[key] = _hash(files)
        except (OSError, ValueError):
            continue  # The plugin says what is wrong with it.
    return hashes


def _is_path(annotation: object) -> bool:
    if isinstance(annotation, type):
        return issubclass(annotation, Path)
    return any(_is_path(part) for part in get_args(annotation))
