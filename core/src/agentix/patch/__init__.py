"""What an agent changed: recorded, compared and verified on the host, and applied elsewhere.

The working tree is compared with what it was before the agent, by content. The `.git` of the tree, its locks,
hooks, filters and commits have no say in it, since nothing in the sandbox is asked for more than bytes.
"""

from agentix.patch.apply import AppliedPatch, apply_patch
from agentix.patch.base import BaseTree, capture_base
from agentix.patch.changes import CapturedPatch
from agentix.patch.limits import PatchLimits
from agentix.patch.manifest import Manifest
from agentix.patch.store import BlobStore, Pruned

__all__ = [
    "AppliedPatch",
    "BaseTree",
    "BlobStore",
    "CapturedPatch",
    "Manifest",
    "PatchLimits",
    "Pruned",
    "apply_patch",
    "capture_base",
]
