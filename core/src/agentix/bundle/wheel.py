"""Unpacks wheels into the directory that Python imports from, without what an installer would add."""

from __future__ import annotations

import hashlib
import stat
import zipfile
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from agentix.bundle.description import check_inside
from agentix.errors import BundleError

_INSTALLERS = frozenset({"RECORD", "RECORD.jws", "RECORD.p7s", "INSTALLER", "REQUESTED", "direct_url.json"})
_SCRIPTS = "bin"
"""Where scripts go, below `site`, as with `pip install --target`."""
_CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """A wheel that was unpacked."""

    name: str
    version: str
    requires: tuple[Requirement, ...]
    commands: dict[str, str]
    """Its console scripts: name and `module:attr`."""
    modules: tuple[str, ...]
    """What it adds to the top level."""
    native: bool = False
    """Whether it has extension modules."""


def unpack_wheel(wheel: Path, site: Path) -> Wheel:
    """Unpack a wheel over what is there.

    Raises:
        BundleError: It is no wheel, or would write elsewhere.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            return _unpack(archive, wheel, site)
    except (zipfile.BadZipFile, ValueError) as error:
        raise BundleError(f"{wheel.name} is not a good wheel: {error}") from error


def read_distributions(site: Path) -> dict[str, Wheel]:
    """What was unpacked into a directory, by normalized name."""
    found = (_described(PathDistribution(path), site) for path in sorted(site.glob("*.dist-info")))
    return {canonicalize_name(wheel.name): wheel for wheel in found}


def _unpack(archive: zipfile.ZipFile, wheel: Path, site: Path) -> Wheel:
    infos = [name for name in archive.namelist() if name.count("/") == 1 and name.endswith(".dist-info/METADATA")]
    if len(infos) != 1:
        raise ValueError("it has no metadata, or more than one's")
    folder = infos[0].partition("/")[0]
    data = folder.removesuffix(".dist-info") + ".data"
    record = []
    for member in sorted(archive.infolist(), key=lambda member: member.filename):
        place = None if member.is_dir() else _place(PurePosixPath(member.filename), folder, data)
        if place is None:
            continue
        check_inside(str(place))
        target = site / place
        target.parent.mkdir(parents=True, exist_ok=True)
        # A file of another distribution may be there, and may share its inode with a layer.
        target.unlink(missing_ok=True)
        mode = member.external_attr >> 16
        if stat.S_ISLNK(mode):
            raise ValueError(f"{member.filename} is a link")
        program = bool(mode & 0o111) or member.filename.startswith(f"{data}/scripts/")
        record.append(_write(archive, member, target, program=program, place=place))
    path = f"{folder}/RECORD"
    (site / path).unlink(missing_ok=True)
    (site / path).write_text("\n".join([*sorted(record), f"{path},,", ""]), encoding="utf-8")
    return _described(PathDistribution(site / folder), site)


def _place(path: PurePosixPath, info: str, data: str) -> PurePosixPath | None:
    """Where a file of a wheel goes; `None` where it is left out."""
    parts = path.parts
    if parts[0] == info and parts[1:] and parts[1] in _INSTALLERS:
        return None
    if path.suffix == ".pyc":
        return None
    if parts[0] != data:
        return path
    if parts[1:2] == ("scripts",):
        return PurePosixPath(_SCRIPTS, *parts[2:])
    return None if parts[1:2] == ("headers",) else PurePosixPath(*parts[2:])


def _write(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, *, program: bool, place: PurePosixPath
) -> str:
    digest, size = hashlib.sha256(), 0
    with archive.open(member) as source, target.open("xb") as file:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            file.write(chunk)
    target.chmod(0o755 if program else 0o644)
    code = urlsafe_b64encode(digest.digest()).rstrip(b"=").decode("ascii")
    name = f'"{place}"' if "," in str(place) else str(place)
    return f"{name},sha256={code},{size}"


def _described(distribution: Distribution, site: Path) -> Wheel:
    points = distribution.entry_points.select(group="console_scripts")
    files = distribution.read_text("RECORD") or ""
    tops = {line.strip('"').partition("/")[0].partition(",")[0] for line in files.splitlines()}
    native = any(line.partition(",")[0].endswith(".so") for line in files.splitlines())
    modules = {name.removesuffix(".py") for name in tops if (site / name).is_dir() or name.endswith(".py")}
    return Wheel(
        name=distribution.metadata["Name"],
        version=distribution.metadata["Version"],
        requires=tuple(Requirement(text) for text in distribution.requires or ()),
        commands={point.name: point.value for point in points},
        modules=tuple(sorted(name for name in modules if name.isidentifier())),
        native=native,
    )
