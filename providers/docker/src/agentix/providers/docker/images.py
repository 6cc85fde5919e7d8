"""The image of a sandbox, wherever it comes from: pulled by its name, or built from a Dockerfile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentix.api import EnvFailed, ImageBuild
from agentix.providers.docker.building import Builds
from agentix.providers.docker.image import Image, check_platform
from agentix.providers.docker.pacing import Pacing
from agentix.providers.docker.pulling import Pulls

if TYPE_CHECKING:
    from agentix.api import SandboxConfig
    from agentix.providers.docker.config import DockerConfig
    from agentix.providers.docker.engine import Engine
    from agentix.providers.docker.facts import Facts


class Images:
    """The images that sandboxes are made of, each had once for all who ask.

    Args:
        engine: The engine.
        options: The provider's options.
    """

    def __init__(self, engine: Engine, options: DockerConfig) -> None:
        pacing = Pacing()
        self.pulls = Pulls(engine, options, pacing)
        self.builds = Builds(engine, options, self.pulls, pacing)

    async def get(self, config: SandboxConfig, *, facts: Facts) -> Image:
        """The image that a sandbox of this config starts from.

        Args:
            config: What the sandbox is to be.
            facts: Of the engine.

        Raises:
            EnvFailed: It cannot be had, built or run here, or the config names none.
            HostError: The engine or a registry failed.
        """
        wanted = config.platform
        if isinstance(config.image, ImageBuild):
            image = await self.builds.get(config.image, platform=wanted, timeout_s=config.build_timeout_s)
            wanted = wanted or config.image.platform
        elif config.image is not None:
            image = await self.pulls.get(config.image, platform=wanted)
        else:
            raise EnvFailed(
                "the provider docker needs an image, and the config names none",
                detail="image_pull",
                hint="name one in the task, or use `--provider local`",
            )
        check_platform(image, wanted=wanted, facts=facts)
        return image

    def forget(self, image: Image) -> None:
        """Have it anew: the engine has lost it."""
        self.pulls.forget(image)
        self.builds.forget(image)
