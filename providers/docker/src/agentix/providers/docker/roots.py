"""Whether a container has its image's files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentix.api import HostError

_PLACE = re.compile(r"/overlay2?/[^/]+/merged|/rootfs/overlayfs/[^/]+")
"""How the directory ends at which Docker, Podman or containerd mounts the files of a container."""


def unmounted(sandbox_id: str, greeting: Mapping[str, Any]) -> HostError | None:
    """Why a container has no files of its image, `None` where it has them or cannot tell.

    An engine mounts an image's files at a directory of its own, and its runtime starts the container there a moment
    later. If they are unmounted between the two, the container starts all the same, in the empty directory below.

    Args:
        sandbox_id: The container's name.
        greeting: What the server in it says of the place in which it finds itself.
    """
    match greeting.get("root"):
        case [str(kind), str(directory)] if "overlay" not in kind and (found := _PLACE.search(directory)):
            if found.end() != len(directory):
                return None
        case _:
            return None
    return HostError(
        f"the sandbox {sandbox_id} started without the files of its image: something on the engine's machine unmounted "
        f"them from {directory} before",
        detail="engine",
        hint="look for what unmounts there: root's programs that change mounts without keeping them private do",
    )
