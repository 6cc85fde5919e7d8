"""Shows what the local store holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agentix.bundle.description import Description
from agentix.bundle.store import open_store
from agentix.errors import BundleError


@dataclass(frozen=True, kw_only=True)
class StoredBundle:
    """A bundle in the local store, whether it is sound or not."""

    digest: str
    names: tuple[str, ...]
    path: Path
    description: Description | None = None
    problem: str | None = None
    """Why it has no description."""


def list_bundles() -> list[StoredBundle]:
    """All bundles of the store, those with names first, in the order of their names.

    Raises:
        HostError: The store cannot be used.
    """
    store = open_store()
    names: dict[str, list[str]] = {digest: [] for digest in store.digests()}
    for name, digest in store.names().items():
        names.setdefault(digest, []).append(str(name))
    found = []
    for digest, known in names.items():
        path = store.tree(digest)
        try:
            bundle = StoredBundle(digest=digest, names=tuple(known), path=path, description=store.read(digest))
        except BundleError as error:
            bundle = StoredBundle(digest=digest, names=tuple(known), path=path, problem=error.message)
        found.append(bundle)
    return sorted(found, key=lambda bundle: (not bundle.names, bundle.names, bundle.digest))
