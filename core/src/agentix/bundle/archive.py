"""Writes a bundle to a tar, and takes one in from a tar or a directory, trusting nothing in it."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, cast

from agentix.bundle.compiling import compile_modules
from agentix.bundle.description import FILE, LARGEST, Description, Entry
from agentix.bundle.listing import TIME_NS, first_change, seal
from agentix.bundle.lookup import Bundle, find_digest
from agentix.bundle.machine import this_machine
from agentix.bundle.reference import PathRef, TagRef, parse_bundle_ref, parse_tag
from agentix.bundle.store import Store, open_store, read_description
from agentix.errors import BundleError, HostError
from agentix.files import open_plain

_CHUNK = 1 << 20
_HINT = "export it again where it was built: agentix bundle export NAME PATH"


def export_bundle(ref: str, target: Path) -> Description:
    """Write a bundle to a tar, the same bytes each time; compressed where its name ends in gz.

    Raises:
        BundleError: It is unknown or damaged, or the file cannot be written.
    """
    store = open_store()
    parsed = parse_bundle_ref(ref)
    if isinstance(parsed, PathRef):
        raise BundleError(f"bundle {ref!r}: only a bundle of the store can be exported", hint="agentix bundle list")
    digest = find_digest(store, parsed)
    held = store.hold(digest)
    try:
        description = store.read(digest)
        tree = store.tree(digest)
        change = first_change(tree, description.entries, contents=True)
        if change is not None:
            raise BundleError(f"bundle {ref} is damaged: {change}", hint="build or import it again")
        if isinstance(parsed, TagRef):
            description = description.model_copy(update={"name": parsed.name, "tag": parsed.tag})
        try:
            _write(tree, description, target)
        except OSError as error:
            raise HostError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        os.close(held)
    return description


def import_bundle(source: Path, *, name: str | None = None, named: bool = True) -> Bundle:
    """Take a bundle into the store, checking every byte.

    Args:
        source: A tar that `export_bundle` wrote, or a directory it was unpacked to.
        name: What to call it; by default what it is called already.
        named: Whether to give it a name at all.

    Raises:
        BundleError: It is none, is damaged, or holds what a bundle cannot.
        HostError: The disk is full.
    """
    store = open_store()
    ref = None if name is None else parse_tag(name)
    with store.workspace() as work:
        fresh = work / "tree"
        fresh.mkdir()
        try:
            description = _copied(source, fresh) if source.is_dir() else _extracted(source, fresh)
        except (tarfile.TarError, EOFError, gzip.BadGzipFile) as error:
            raise BundleError(f"{source} is damaged or no tar: {error}", hint=_HINT) from error
        own = TagRef(description.name, description.tag)
        return settle(store, fresh, description, ref=(ref or own) if named else None)


def settle(store: Store, fresh: Path, description: Description, *, ref: TagRef | None) -> Bundle:
    """Compile, seal and install a tree, and name it."""
    if description.python == this_machine().python:
        compile_modules(fresh)
    seal(fresh)
    path = store.install(fresh, description)
    if ref is not None:
        store.point(ref, description.digest)
    return Bundle(path=path, description=description)


def _write(tree: Path, description: Description, target: Path) -> None:
    descriptor, name = tempfile.mkstemp(prefix=".new-", dir=target.absolute().parent)
    fresh = Path(name)
    try:
        with ExitStack() as stack:
            file: IO[bytes] = stack.enter_context(os.fdopen(descriptor, "wb"))
            if target.name.endswith("gz"):
                # Without a name and a time in its header, the same content gives the same bytes.
                packed = stack.enter_context(gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0))
                file = cast("IO[bytes]", packed)
            tar = stack.enter_context(tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT))
            data = description.to_bytes()
            tar.addfile(_member(FILE, tarfile.REGTYPE, size=len(data)), io.BytesIO(data))
            for entry in description.entries:
                _add(tar, tree, entry)
        fresh.chmod(0o644)
        fresh.replace(target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def _add(tar: tarfile.TarFile, tree: Path, entry: Entry) -> None:
    if entry.kind == "dir":
        tar.addfile(_member(entry.path, tarfile.DIRTYPE, mode=0o755))
    elif entry.kind == "link":
        member = _member(entry.path, tarfile.SYMTYPE, mode=0o777)
        member.linkname = entry.target or ""
        tar.addfile(member)
    else:
        mode = 0o755 if entry.kind == "program" else 0o644
        with (tree / entry.path).open("rb") as content:
            tar.addfile(_member(entry.path, tarfile.REGTYPE, mode=mode, size=entry.size), content)


def _member(path: str, kind: bytes, *, mode: int = 0o644, size: int = 0) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path)
    member.type, member.mode, member.size, member.mtime = kind, mode, size, TIME_NS // 10**9
    return member


def _extracted(source: Path, fresh: Path) -> Description:
    try:
        tar = tarfile.open(source, "r|*")  # noqa: SIM115
    except FileNotFoundError:
        raise BundleError(f"there is no file {source}") from None
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            raise
        raise BundleError(f"{source} cannot be read: {error.strerror or error}") from error
    with tar:
        first = tar.next()
        if first is None or first.name.removeprefix("./") != FILE or not first.isreg() or first.size > LARGEST:
            raise BundleError(f"{source} is no bundle: it does not begin with {FILE}", hint=_HINT)
        description = Description.parse(_content(tar, first).read(), where=f"{source}: {FILE}")
        missing = {entry.path: entry for entry in description.entries}
        for member in _rest(tar):
            name = member.name.removeprefix("./").rstrip("/")
            entry = missing.pop(name, None)
            if entry is None:
                if member.isdir():
                    continue
                raise BundleError(f"{source} is damaged: {name!r} is not listed, or is there twice", hint=_HINT)
            _take(entry, fresh, _content(tar, member) if member.isreg() else None, link=member.linkname, where=source)
    return _complete(description, missing, where=source)


def _copied(source: Path, fresh: Path) -> Description:
    description = read_description(source)
    for entry in description.entries:
        path = source / entry.path
        try:
            if entry.kind == "link":
                _take(entry, fresh, None, link=str(path.readlink()), where=source)
            elif entry.kind == "dir":
                _take(entry, fresh, None, link="", where=source)
            else:
                with open_plain(path) as content:
                    _take(entry, fresh, content, link="", where=source)
        except OSError as error:
            if not path.exists() or path.is_symlink() != (entry.kind == "link"):
                raise BundleError(f"{source} is damaged: {entry.path} is missing or changed", hint=_HINT) from error
            raise
    return description


def _rest(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    while (member := tar.next()) is not None:
        # The list of members would grow with a file of any number of them.
        tar.members = []  # type: ignore[attr-defined]
        yield member


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = tar.extractfile(member)
    if content is None:
        raise BundleError(f"{member.name} has no content")
    return content


def _take(entry: Entry, fresh: Path, content: IO[bytes] | None, *, link: str, where: Path) -> None:
    """Write one file, if it is what the description says. No link is ever followed: each comes from the entries."""
    target = fresh / entry.path
    for parent in (*reversed(target.parent.relative_to(fresh).parents), target.parent.relative_to(fresh)):
        if (fresh / parent).is_symlink():
            raise BundleError(f"{where} is damaged: {entry.path} lies behind a link", hint=_HINT)
    target.parent.mkdir(parents=True, exist_ok=True)
    if entry.kind == "dir":
        target.mkdir(exist_ok=True)
    elif entry.kind == "link":
        if link != entry.target:
            raise BundleError(f"{where} is damaged: {entry.path} leads elsewhere", hint=_HINT)
        target.symlink_to(link)
    elif content is None:
        raise BundleError(f"{where} is damaged: {entry.path} is no file", hint=_HINT)
    else:
        digest, left = hashlib.sha256(), entry.size + 1
        with target.open("xb") as file:
            while left and (chunk := content.read(min(_CHUNK, left))):
                left -= len(chunk)
                digest.update(chunk)
                file.write(chunk)
        if left != 1 or digest.hexdigest() != entry.sha256:
            raise BundleError(f"{where} is damaged: {entry.path} has another content than listed", hint=_HINT)
        target.chmod(0o755 if entry.kind == "program" else 0o644)


def _complete(description: Description, missing: dict[str, Entry], *, where: Path) -> Description:
    if missing:
        raise BundleError(f"{where} is damaged: {next(iter(missing))} is missing", hint=_HINT)
    return description
