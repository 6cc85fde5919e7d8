"""Builds and keeps what is mounted into sandboxes: the base runtime."""

from agentix.bundle.cache import cache_dir
from agentix.bundle.prune import Pruned, prune_cache
from agentix.bundle.runtime import base_runtime

__all__ = ["Pruned", "base_runtime", "cache_dir", "prune_cache"]
