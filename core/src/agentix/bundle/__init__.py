"""Builds and keeps what is mounted into sandboxes: the base runtime and bundles."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from agentix.bundle.cache import cache_dir
from agentix.bundle.runtime import base_runtime

if TYPE_CHECKING:
    from agentix.bundle.archive import export_bundle, import_bundle
    from agentix.bundle.build import build_bundle
    from agentix.bundle.collect import Collected, collect_bundles, remove_bundle
    from agentix.bundle.description import Description, Entry
    from agentix.bundle.lookup import Bundle, find_bundle, resolve_bundle
    from agentix.bundle.mounted import MOUNT_POINT, MountedBundle
    from agentix.bundle.prune import Pruned, prune_cache
    from agentix.bundle.push import Pushed, push_bundle
    from agentix.bundle.stored import StoredBundle, list_bundles

__all__ = [
    "MOUNT_POINT",
    "Bundle",
    "Collected",
    "Description",
    "Entry",
    "MountedBundle",
    "Pruned",
    "Pushed",
    "StoredBundle",
    "base_runtime",
    "build_bundle",
    "cache_dir",
    "collect_bundles",
    "export_bundle",
    "find_bundle",
    "import_bundle",
    "list_bundles",
    "prune_cache",
    "push_bundle",
    "remove_bundle",
    "resolve_bundle",
]

# A sandbox without a bundle needs none of these, and what they import takes longer than starting it.
_HOMES = {
    "archive": ("export_bundle", "import_bundle"),
    "build": ("build_bundle",),
    "collect": ("Collected", "collect_bundles", "remove_bundle"),
    "description": ("Description", "Entry"),
    "lookup": ("Bundle", "find_bundle", "resolve_bundle"),
    "mounted": ("MOUNT_POINT", "MountedBundle"),
    "prune": ("Pruned", "prune_cache"),
    "push": ("Pushed", "push_bundle"),
    "stored": ("StoredBundle", "list_bundles"),
}
_HOME_OF = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
