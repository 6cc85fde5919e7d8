"""From a reference to a verified bundle."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from agentix.bundle.cache import cache_dir
from agentix.bundle.description import FILE, Description
from agentix.bundle.listing import first_change
from agentix.bundle.machine import check_fit
from agentix.bundle.reference import BundleRef, DigestRef, PathRef, TagRef, parse_bundle_ref
from agentix.bundle.store import FOLDER, Store, open_store, read_description
from agentix.errors import BundleError

_DIGITS = 64

# Verified bundles of this process, each with the store it lies in; their descriptors stay open.
_READY: dict[tuple[Path, str], Bundle] = {}
# Digests of bundles that were given by path, by its state, so that a file is imported once.
_IMPORTED: dict[tuple[str, int, int], str] = {}


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A bundle in the local store."""

    path: Path
    """Its tree on this machine."""
    description: Description

    @property
    def digest(self) -> str:
        """`sha256:` and 64 digits: what a bundle is, whatever its names are."""
        return self.description.digest


async def resolve_bundle(ref: str) -> Bundle:
    """The bundle that a reference names, verified, fit for this machine, and kept from removal.

    The first call of a process looks at every file; later calls for the same digest are free.

    Args:
        ref: `name:tag`, `sha256:…` or enough of it, or the path of an exported tar or of one unpacked.

    Raises:
        BundleError: It is unknown, damaged, or of another platform or Python.
        HostError: The store cannot be used.
    """
    ready = _READY.get((cache_dir() / FOLDER, ref))
    if ready is not None and (ready.path / FILE).exists():
        return ready
    return await anyio.to_thread.run_sync(find_bundle, ref)


def find_bundle(ref: str) -> Bundle:
    """The same, for synchronous callers."""
    store = open_store()
    parsed = parse_bundle_ref(ref)
    digest = _import(parsed.path) if isinstance(parsed, PathRef) else find_digest(store, parsed)
    ready = _READY.get((store.top, digest))
    if ready is not None and (ready.path / FILE).exists():
        return ready
    descriptor = store.hold(digest)
    try:
        bundle = Bundle(path=store.tree(digest), description=store.read(digest))
        check_fit(bundle.description, ref=ref)
        change = first_change(bundle.path, bundle.description.entries)
        if change is not None:
            raise BundleError(f"bundle {ref} is damaged: {change}", hint=_again(parsed))
    except BaseException:
        os.close(descriptor)
        raise
    _READY[store.top, digest] = bundle
    return bundle


def find_digest(store: Store, ref: TagRef | DigestRef) -> str:
    """The digest of a bundle in the store.

    Raises:
        BundleError: There is no such bundle, or more than one.
    """
    if isinstance(ref, TagRef):
        digest = store.digest_of(ref)
        if digest is None:
            raise _unknown(ref, store.names())
        return digest
    wanted = f"sha256:{ref.digits}"
    found = [digest for digest in store.digests() if digest.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        raise BundleError(f"bundle {wanted} may be one of {len(found)}", hint=f"give more digits: {', '.join(found)}")
    raise BundleError(
        f"there is no bundle {wanted}", hint="`agentix bundle list` shows those that there are; build or import it"
    )


def _unknown(ref: TagRef, names: Iterable[TagRef]) -> BundleError:
    known = [str(name) for name in names]
    build = f"build it: agentix build PATH -n {ref}"
    tags = [name.tag for name in names if name.name == ref.name]
    if tags:
        return BundleError(f"there is no bundle {ref}; {ref.name} has {', '.join(tags)}", hint=f"name one, or {build}")
    near = difflib.get_close_matches(str(ref), known, n=1, cutoff=0.5)
    said = f"; did you mean {near[0]}?" if near else ""
    return BundleError(f"there is no bundle {ref}{said}", hint=build)


def _import(path: Path) -> str:
    from agentix.bundle.archive import import_bundle

    try:
        status = (path / FILE if path.is_dir() else path).stat()
    except FileNotFoundError:
        if path.is_dir():
            read_description(path)
        raise BundleError(f"there is no bundle at {path}", hint="agentix bundle export NAME PATH writes one") from None
    except OSError as error:
        raise BundleError(f"bundle {path} cannot be read: {error.strerror}") from error
    key = (str(path), status.st_size, status.st_mtime_ns)
    digest = _IMPORTED.get(key)
    if digest is None or not open_store().tree(digest).exists():
        digest = _IMPORTED[key] = import_bundle(path, named=False).digest
    return digest


def _again(ref: BundleRef) -> str:
    if isinstance(ref, TagRef):
        return f"build it again: agentix build PATH -n {ref}; or import it again"
    return "build or import it again"
