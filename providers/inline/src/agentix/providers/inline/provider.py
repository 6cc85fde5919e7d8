"""The provider `inline`: no sandbox at all, for code that is trusted."""

from __future__ import annotations

from agentix.api import Capability, HostProcessProvider, SandboxConfig, Unsupported


class InlineProvider(HostProcessProvider):
    """Runs commands as plain child processes on this machine, with this user's rights: nothing is isolated.

    A command can read and change every file that you can, reach every network that you reach, and see and end your
    processes. It gets a private temporary directory to work in and none of your environment variables; that is
    tidiness, not protection. It is meant for agents and tasks that you trust as you trust your own shell, and for
    worlds, which run no commands. For everything else use `local` or `docker`.
    """

    name = "inline"
    capabilities: frozenset[Capability] = frozenset()

    def refuse(self, config: SandboxConfig) -> None:
        """Refuse what takes a sandbox.

        Raises:
            Unsupported: The message names the field.
        """
        if config.image:
            raise Unsupported(
                "image: the provider inline runs commands on this machine and has no images",
                hint="use `--provider local` or `--provider docker`",
            )
        if config.network == "allowlist":
            raise Unsupported("network: the provider inline cannot limit a network to allowed hosts")
        super().refuse(config)
