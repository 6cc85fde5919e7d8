"""The provider `inline`: no sandbox at all, for code that is trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from agentix.api import (
    Capability,
    HostProcessProvider,
    ImageBuild,
    RuntimeMount,
    SandboxConfig,
    SandboxInfo,
    Unsupported,
)


class InlineProvider(HostProcessProvider):
    """Runs commands as plain child processes on this machine, with this user's rights: nothing is isolated.

    A command can read and change every file that you can, reach every network that you reach, and see and end your
    processes. It gets private directories, one to work in and one for temporary files, and none of your environment
    variables; that is tidiness, not protection. It is meant for agents and tasks that you trust as you trust your own
    shell, and for worlds, which run no commands. For everything else use `local` or `docker`.
    """

    name = "inline"
    capabilities: frozenset[Capability] = frozenset()
    contract_waivers: ClassVar[Mapping[str, str]] = {
        "refuses_images": "this machine stands in for an image, which is noted",
        "refuses_public_network": "a plain process always has the host's network",
    }

    async def create(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
        """Make a name for it, and say that this machine stands in for the image."""
        info = await super().create(config, runtime)
        if config.image:
            note = f"inline: this machine, without any isolation, stands in for the image {config.image}"
            info = replace(info, notes=(*info.notes, note))
        return info

    def refuse(self, config: SandboxConfig) -> None:
        """Refuse what takes a sandbox.

        Raises:
            Unsupported: The message names the field.
        """
        if isinstance(config.image, ImageBuild):
            raise Unsupported(
                "image: the provider inline runs commands on this machine and builds no images",
                hint="use `--provider local` or `--provider docker`",
            )
        if config.network == "allowlist":
            raise Unsupported("network: the provider inline cannot limit a network to allowed hosts")
        super().refuse(config)
