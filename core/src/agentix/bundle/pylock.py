"""Reads pylock.toml (PEP 751), as far as it concerns this machine."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from packaging.markers import InvalidMarker, Marker

from agentix.bundle.locked import Dependencies
from agentix.bundle.project import Project
from agentix.errors import BundleError

NAME = "pylock.toml"
_ALGORITHMS = ("sha256", "sha384", "sha512")


def read_pylock(project: Project) -> Dependencies | None:
    """The dependencies from a project's pylock.toml; `None` where there is none.

    Raises:
        BundleError: It cannot be read.
    """
    path = project.path / NAME
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        packages = data.get("packages", [])
        hashed: list[str] = []
        free: list[str] = []
        local: list[Path] = []
        for package in packages:
            if "marker" in package and not Marker(package["marker"]).evaluate(
                {"extras": set(project.bundle.extras), "dependency_groups": set()}
            ):
                continue
            if "directory" in package:
                folder = (path.parent / package["directory"]["path"]).resolve()
                if folder != project.path:
                    local.append(folder)
                continue
            line, digests = _line(package, path)
            (hashed if digests else free).append(" ".join([line, *sorted(f"--hash={digest}" for digest in digests)]))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, InvalidMarker, KeyError, TypeError) as error:
        raise BundleError(f"{path} cannot be read: {error!r}") from error
    batches = tuple(tuple(sorted(lines)) for lines in (hashed, free) if lines)
    return Dependencies(source=NAME, batches=batches, local=tuple(sorted(local)))


def _line(package: dict[str, Any], path: Path) -> tuple[str, set[str]]:
    name = package["name"]
    if "vcs" in package:
        vcs = package["vcs"]
        address = vcs["url"] if "url" in vcs else (path.parent / vcs["path"]).resolve().as_uri()
        folder = f"#subdirectory={vcs['subdirectory']}" if "subdirectory" in vcs else ""
        return f"{name} @ {vcs['type']}+{address}@{vcs['commit-id']}{folder}", set()
    if "archive" in package:
        archive = package["archive"]
        folder = f"#subdirectory={archive['subdirectory']}" if "subdirectory" in archive else ""
        return f"{name} @ {_address(archive, path)}{folder}", _digests(archive)
    files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
    if not files:
        raise KeyError(f"{name} has no files")
    if "version" not in package or all("path" in file and "url" not in file for file in files):
        file = files[0]
        return f"{name} @ {_address(file, path)}", _digests(file)
    return f"{name}=={package['version']}", {digest for file in files for digest in _digests(file)}


def _address(file: dict[str, Any], path: Path) -> str:
    return str(file["url"]) if "url" in file else (path.parent / file["path"]).resolve().as_uri()


def _digests(file: dict[str, Any]) -> set[str]:
    hashes = file.get("hashes", {})
    return {f"{name}:{hashes[name]}" for name in _ALGORITHMS if name in hashes}
