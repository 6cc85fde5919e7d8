"""Brings a bundle into a sandbox: as one more mount, and first on the PATH of its commands."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agentix.models import Mount, SandboxConfig
from agentix.runtime.execution import DEFAULT_PATH

if TYPE_CHECKING:
    from agentix.bundle import MountedBundle


async def bundled(config: SandboxConfig, *, mounts: bool) -> tuple[SandboxConfig, MountedBundle | None]:
    """The config with its bundle resolved, and what will be seen of the bundle inside.

    Args:
        config: What was asked for.
        mounts: Whether the bundle is to be mounted; else it is used where it lies on the host.

    Raises:
        BundleError: The bundle is unknown, damaged, or of another platform or Python.
    """
    if config.bundle is None:
        return config, None
    from agentix.bundle import MOUNT_POINT, MountedBundle, resolve_bundle

    bundle = await resolve_bundle(config.bundle)
    if not mounts:
        seen = MountedBundle(description=bundle.description, path=str(bundle.path))
        return config.model_copy(update={"bundle": bundle.digest}), seen
    mount = Mount(source=bundle.path, target=MOUNT_POINT)
    changed = config.model_copy(update={"bundle": bundle.digest, "mounts": (*config.mounts, mount)})
    return changed, MountedBundle(description=bundle.description)


def with_commands(env: Mapping[str, str], bundle: MountedBundle | None, *, always: bool = False) -> Mapping[str, str]:
    """An environment in which the bundle's commands come first.

    Args:
        env: Variables of one layer of the environment.
        bundle: The bundle, if there is one.
        always: Set PATH also where this layer has none.
    """
    path = env.get("PATH", DEFAULT_PATH.decode("ascii") if always else None)
    if bundle is None or path is None:
        return env
    # Without a runtime mounted, the bundle's Python commands run with the interpreter that the server runs with.
    own = {} if bundle.mounted else {"AGENTIX_PYTHON": sys.executable}
    return {**env, **own, "PATH": f"{bundle.bin}:{path}" if path else bundle.bin}
