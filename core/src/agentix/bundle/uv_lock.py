"""Reads uv.lock, as far as it concerns one project on this machine."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.markers import InvalidMarker, Marker
from packaging.utils import canonicalize_name

from agentix.bundle.locked import Dependencies
from agentix.bundle.project import Project
from agentix.errors import BundleError

NAME = "uv.lock"
_PYPI = "https://pypi.org/simple"


def read_uv_lock(project: Project) -> Dependencies | None:
    """The dependencies of a project from its own uv.lock or its workspace's; `None` where there is none.

    Raises:
        BundleError: It cannot be read, or does not know the project.
    """
    for folder in (project.path, *project.path.parents):
        path = folder / NAME
        if path.is_file():
            reader = _Reader(path)
            root = reader.member(project.path)
            if root is not None:
                return reader.read(root, project)
            if folder == project.path:
                raise BundleError(f"{path} does not know the project in {folder}", hint="lock again: uv lock")
    return None


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
            if data["version"] != 1:
                raise BundleError(f"{path}: its version {data['version']} is not known", hint="update agentix")
            self._packages: list[dict[str, Any]] = data.get("package", [])
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
            raise BundleError(f"{path} cannot be read: {error}") from error

    def member(self, folder: Path) -> dict[str, Any] | None:
        """The package that lies in a directory."""
        for package in self._packages:
            place = self._folder(package)
            if place is not None and place == folder:
                return package
        return None

    def read(self, root: dict[str, Any], project: Project) -> Dependencies:
        hashed: list[str] = []
        free: list[str] = []
        local: list[Path] = []
        indexes: set[str] = set()
        for package in self._reached(root, project.bundle.extras):
            source = package["source"]
            folder = self._folder(package)
            if folder is not None:
                if folder != project.path and "virtual" not in source:
                    local.append(folder)
                continue
            line, digests = self._line(package)
            if digests:
                hashed.append(" ".join([line, *(f"--hash={digest}" for digest in sorted(digests))]))
            else:
                free.append(line)
            index = str(source.get("registry", _PYPI)).rstrip("/")
            if "://" in index and index != _PYPI:
                indexes.add(index)
        options = [f"--extra-index-url {index}" for index in sorted(indexes)]
        batches = tuple((*options, *sorted(lines)) for lines in (hashed, free) if lines)
        return Dependencies(source=NAME, batches=batches, local=tuple(sorted(local)))

    def _reached(self, root: dict[str, Any], extras: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        todo: list[tuple[dict[str, Any], str]] = [(root, ""), *((root, extra) for extra in extras)]
        seen: set[tuple[int, str]] = set()
        told: set[int] = set()
        while todo:
            package, extra = todo.pop()
            if (id(package), extra) in seen:
                continue
            seen.add((id(package), extra))
            if id(package) not in told:
                told.add(id(package))
                yield package
            optional: Mapping[str, Any] = package.get("optional-dependencies", {})
            wanted = package.get("dependencies", []) if not extra else optional.get(extra, [])
            for dependency in wanted:
                if self._applies(dependency):
                    found = self._find(dependency)
                    todo += [(found, ""), *((found, name) for name in dependency.get("extra", ()))]

    def _applies(self, dependency: dict[str, Any]) -> bool:
        try:
            return "marker" not in dependency or Marker(dependency["marker"]).evaluate({"extra": ""})
        except InvalidMarker as error:
            raise BundleError(f"{self._path}: {error}") from error

    def _find(self, dependency: dict[str, Any]) -> dict[str, Any]:
        name = canonicalize_name(dependency["name"])
        found = [
            package
            for package in self._packages
            if canonicalize_name(package["name"]) == name
            and all(dependency.get(key) in (None, package.get(key)) for key in ("version", "source"))
        ]
        if len(found) != 1:
            raise BundleError(
                f"{self._path}: {len(found)} packages {name} where one is meant", hint="lock again: uv lock"
            )
        return found[0]

    def _folder(self, package: dict[str, Any]) -> Path | None:
        source = package.get("source", {})
        for kind in ("editable", "virtual", "directory"):
            if kind in source:
                return (self._path.parent / str(source[kind])).resolve()
        return None

    def _line(self, package: dict[str, Any]) -> tuple[str, set[str]]:
        """A requirement, and the digests that it may have."""
        source, name = package["source"], package["name"]
        files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        digests = {file["hash"] for file in files if "hash" in file}
        if "registry" in source:
            return f"{name}=={package['version']}", digests
        if "git" in source:
            address, _, commit = source["git"].partition("#")
            place = address.partition("?")[0]
            query = dict(part.partition("=")[::2] for part in address.partition("?")[2].split("&") if part)
            folder = f"#subdirectory={query['subdirectory']}" if "subdirectory" in query else ""
            return f"{name} @ git+{place}@{commit}{folder}", set()
        if "url" in source:
            return f"{name} @ {source['url']}", digests
        if "path" in source:
            return f"{name} @ {(self._path.parent / source['path']).resolve().as_uri()}", digests
        raise BundleError(f"{self._path}: the source of {name} is of no known kind: {', '.join(source)}")
