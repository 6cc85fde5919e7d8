"""A build's context: the archive that the engine gets, and the digest that it is found again by."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from agentix.api import EnvFailed, ImageBuild
from agentix.providers.docker.dockerfile import Dockerfile, HeredocError, read
from agentix.providers.docker.heredocs import Lowered

_LAYOUT = "1"
_CHUNK = 1 << 20
_OUTSIDE = ".agentix-dockerfile"


@dataclass(frozen=True, kw_only=True)
class Context:
    """What is sent to the engine."""

    digest: str
    dockerfile: str
    """The Dockerfile's place in the archive."""


def fingerprint(build: ImageBuild) -> str:
    """Changes whenever the context may have changed, from names, sizes and times alone.

    Raises:
        EnvFailed: The context or the Dockerfile cannot be read.
    """
    found = hashlib.sha256(_arguments(build))
    try:
        status = build.dockerfile_path.stat()
        found.update(f"{build.dockerfile_path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
        for name in _names(build):
            status = Path(build.context, name).lstat()
            found.update(f"{name}\0{status.st_mode}\0{status.st_size}\0{status.st_mtime_ns}\0".encode(errors="replace"))
    except OSError as error:
        raise _unreadable(build, error) from error
    return found.hexdigest()


def read_dockerfile(build: ImageBuild) -> Dockerfile:
    """The Dockerfile of a build.

    Raises:
        EnvFailed: It cannot be read, or is malformed.
    """
    try:
        return read(build.dockerfile_path.read_bytes().decode("utf-8-sig", "surrogateescape"))
    except HeredocError as error:
        raise EnvFailed(f"{build.dockerfile_path}: {error}", detail="image_build") from error
    except OSError as error:
        raise _unreadable(build, error) from error


def hides_dockerfile(build: ImageBuild) -> bool:
    """Whether what COPY sees is without the Dockerfile: it lies elsewhere, or .dockerignore leaves it out."""
    own = _inside(build)
    if own is None:
        return True
    patterns = _patterns(build)
    if not patterns:
        return False
    from docker.utils.build import PatternMatcher  # type: ignore[import-untyped]

    matcher: Any = PatternMatcher(patterns)
    return bool(matcher.matches(own))


def pack(build: ImageBuild, file: IO[bytes], result: Lowered) -> Context:
    """Write the archive.

    Args:
        build: What to build.
        file: Where to.
        result: The Dockerfile as the builder is to see it.

    Raises:
        EnvFailed: Something cannot be read.
    """
    try:
        return _pack(build, file, result)
    except OSError as error:
        raise _unreadable(build, error) from error


def _pack(build: ImageBuild, file: IO[bytes], result: Lowered) -> Context:
    own = _inside(build)
    content = result.text.encode("utf-8", "surrogateescape")
    digest = hashlib.sha256(_arguments(build) + hashlib.sha256(content).digest())
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        # BuildKit takes for an archive what begins with a plain header.
        top = tarfile.TarInfo("./")
        top.type, top.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(top)
        for name in _names(build):
            if name == own:
                continue
            entry = tar.gettarinfo(Path(build.context, name), arcname=name)
            if entry is None:
                # A socket, which no archive holds.
                continue
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            digest.update(
                f"{name}\0{entry.type!r}\0{entry.mode}\0{entry.linkname}\0{entry.size}\0".encode(errors="replace")
            )
            if entry.isreg():
                with Path(build.context, name).open("rb") as source:
                    tar.addfile(entry, _Hashing(source, digest))
            else:
                tar.addfile(entry)
        for name, (body, mode) in result.files.items():
            digest.update(f"{name}\0{mode}\0".encode() + hashlib.sha256(body).digest())
            _add(tar, name, body, mode)
        _add(tar, own or _OUTSIDE, content, 0o644)
        if own is None:
            # The classic builder then leaves our Dockerfile out of what COPY sees.
            _add(tar, ".dockerignore", _ignore_text(build) + f"\n.dockerignore\n{_OUTSIDE}\n".encode(), 0o644)
    file.seek(0)
    return Context(digest=digest.hexdigest(), dockerfile=own or _OUTSIDE)


class _Hashing(io.RawIOBase):
    """Hashes a file while it is read, so that it is read once."""

    def __init__(self, source: IO[bytes], digest: hashlib._Hash) -> None:
        self._source = source
        self._digest = digest

    def read(self, size: int = -1) -> bytes:
        """Read on."""
        piece = self._source.read(size)
        self._digest.update(piece)
        return piece


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _names(build: ImageBuild) -> Iterator[str]:
    """Everything below the context that .dockerignore does not leave out, in a fixed order."""
    if not build.context.is_dir():
        raise EnvFailed(f"the build context {build.context} is no directory", detail="image_build")
    patterns = _patterns(build)
    if patterns:
        from docker.utils.build import exclude_paths

        yield from sorted(exclude_paths(str(build.context), patterns, dockerfile=_inside(build)))
        return
    yield from _walk(build.context, "")


def _walk(top: Path, prefix: str) -> Iterator[str]:
    with os.scandir(top / prefix) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        name = f"{prefix}{entry.name}"
        yield name
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(top, f"{name}/")


def _patterns(build: ImageBuild) -> list[str]:
    lines = [line.strip() for line in _ignore_text(build).decode("utf-8-sig", "surrogateescape").splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _ignore_text(build: ImageBuild) -> bytes:
    for path in (Path(f"{build.dockerfile_path}.dockerignore"), build.context / ".dockerignore"):
        if path.is_file():
            return path.read_bytes()
    return b""


def _inside(build: ImageBuild) -> str | None:
    """The Dockerfile's place below the context, where it is a plain file there."""
    try:
        place = build.dockerfile_path.relative_to(build.context)
    except ValueError:
        return None
    if ".." in place.parts or not stat.S_ISREG(build.dockerfile_path.lstat().st_mode):
        return None
    return place.as_posix()


def _arguments(build: ImageBuild) -> bytes:
    return json.dumps([_LAYOUT, sorted(build.args.items()), build.platform]).encode()


def _unreadable(build: ImageBuild, error: OSError) -> EnvFailed:
    where = error.filename or build.dockerfile_path
    return EnvFailed(
        f"the build of {build.dockerfile_path} cannot read {where}: {error.strerror or error}", detail="image_build"
    )
