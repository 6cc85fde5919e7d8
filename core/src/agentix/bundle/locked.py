"""What a project's dependencies are: what its lock file says, else what its metadata asks for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement

from agentix.bundle.project import Project
from agentix.errors import BundleError

_COMMENT = re.compile(r"(^|\s)#.*$")
_PINNED = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[^]]*\])?\s*(===?\s*[^*,\s;]+|@\s*\S+)(\s|;|$)")


@dataclass(frozen=True, kw_only=True)
class Dependencies:
    """What to fetch."""

    source: str
    """Where this comes from, such as `uv.lock`."""
    batches: tuple[tuple[str, ...], ...] = ()
    """Lines of requirement files, one file each: pip takes hashes for all lines of a file or for none."""
    exact: bool = True
    """Whether the lines name everything, so that pip is not to look for more."""
    local: tuple[Path, ...] = ()
    """Directories of projects, built from what they hold now."""


def find_dependencies(project: Project, requires: Sequence[Requirement]) -> Dependencies:
    """The dependencies of a project.

    Args:
        project: The project.
        requires: What its metadata asks for here.

    Raises:
        BundleError: Its lock file cannot be read, or does not know the project.
    """
    from agentix.bundle.pylock import read_pylock
    from agentix.bundle.uv_lock import read_uv_lock

    for read in (read_uv_lock, read_pylock, _read_requirements):
        found = read(project)
        if found is not None:
            return found
    lines, local = [], []
    for requirement in requires:
        folder = local_folder(requirement)
        if folder is None:
            lines.append(plain(requirement))
        else:
            local.append(folder)
    return Dependencies(
        source="the project's metadata",
        batches=(tuple(sorted(lines)),) if lines else (),
        exact=False,
        local=tuple(local),
    )


def wanted(requires: Sequence[Requirement], extras: Sequence[str]) -> list[Requirement]:
    """Those requirements that hold on this machine for these extras."""
    return [
        requirement
        for requirement in requires
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]


def plain(requirement: Requirement) -> str:
    """A requirement without its marker, which was evaluated."""
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    tail = f" @ {requirement.url}" if requirement.url else str(requirement.specifier)
    return f"{requirement.name}{extras}{tail}"


def local_folder(requirement: Requirement) -> Path | None:
    """The directory that a requirement names by URL."""
    path = local_path(requirement.url or "")
    return path if path is not None and path.is_dir() else None


def local_path(url: str) -> Path | None:
    """The path of a file URL."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _read_requirements(project: Project) -> Dependencies | None:
    """A requirements.txt counts as a lock where every line of it is pinned."""
    path = project.path / "requirements.txt"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BundleError(f"{path}: {error}") from error
    lines = [_COMMENT.sub("", line).strip() for line in text.replace("\\\n", " ").splitlines()]
    lines = [line for line in lines if line]
    kept = [line for line in lines if not line.startswith("-")]
    if not kept or any(not _PINNED.match(line) for line in kept) or any(_includes(line) for line in lines):
        return None
    for line in kept:
        try:
            Requirement(line.partition(" --")[0])
        except InvalidRequirement as error:
            raise BundleError(f"{path}: {error}") from error
    return Dependencies(source="requirements.txt", batches=(tuple(lines),))


def _includes(line: str) -> bool:
    return line.startswith(("-r", "-c", "-e", "--requirement", "--constraint", "--editable"))
