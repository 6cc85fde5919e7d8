"""Makes a container and starts it, by another way where the engine does not see our files or has lost the image."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from agentix.api import SERVER_ARGS, RuntimeMount, SandboxConfig
from agentix.providers.docker.attached import AttachedStream
from agentix.providers.docker.compose import Projects, joined
from agentix.providers.docker.compose_project import Project
from agentix.providers.docker.config import DockerConfig
from agentix.providers.docker.container import creation, home_of
from agentix.providers.docker.containers import create_container
from agentix.providers.docker.engine import Engine, EngineError, segment
from agentix.providers.docker.facts import Facts
from agentix.providers.docker.failures import creation_failed, start_failed
from agentix.providers.docker.image import Image
from agentix.providers.docker.images import Images
from agentix.providers.docker.trees import Volumes, bound, is_unseen, trees_of

_LOG = logging.getLogger("agentix.providers.docker")


class Maker:
    """Makes the containers of one engine.

    Args:
        engine: Where they are made.
        options: The provider's.
        images: Gives an image again that the engine has lost meanwhile.
        projects: Connects a container to the services beside it.
    """

    def __init__(self, engine: Engine, options: DockerConfig, *, images: Images, projects: Projects) -> None:
        self._engine = engine
        self._options = options
        self._images = images
        self._projects = projects
        self._volumes = Volumes(engine)
        self._unseen = False

    async def create(
        self,
        sandbox_id: str,
        config: SandboxConfig,
        image: Image,
        *,
        facts: Facts,
        runtime: RuntimeMount,
        labels: Mapping[str, str],
        project: Project | None,
    ) -> Image:
        """Create a container and return the image that it has.

        Raises:
            EnvFailed: The image does not fit, or cannot be had a second time.
            HostError: The engine or a registry failed.
        """
        retried = False
        config, trees = trees_of(config, runtime)
        while True:
            if self._uses_volumes:
                mounts = [await self._volumes.get(tree, image=image.id) for tree in trees]
            else:
                mounts = [bound(tree) for tree in trees]
            body = creation(
                config,
                image,
                options=self._options,
                facts=facts,
                runtime=runtime,
                own_mounts=mounts,
                labels=labels,
            )
            if project is not None:
                head = (*runtime.argv, *SERVER_ARGS, "--stdio")
                body = joined(body, project, image=image, head=head, home=home_of(image))
            try:
                await create_container(self._engine, sandbox_id, body)
                if project is not None:
                    await self._projects.connect(project, sandbox_id)
            except EngineError as error:
                if self._options.runtime_mount == "auto" and not self._uses_volumes and is_unseen(error, trees):
                    _LOG.info("the engine does not see %s: the runtime goes into a volume", runtime.path)
                    self._unseen = True
                    continue
                if error.status == 404 and "no such image" in error.reason.lower() and not retried:
                    retried = True
                    self._images.forget(image)
                    image = await self._images.get(config, facts=facts)
                    continue
                raise creation_failed(error, image) from error
            return image

    async def attach(self, sandbox_id: str, image: Image) -> AttachedStream:
        """Attach a stream to a container that was not started yet; Podman makes it ready here already.

        Raises:
            EnvFailed: Its image does not start.
            HostError: The engine failed.
        """
        try:
            return await self._engine.attach(sandbox_id)
        except EngineError as error:
            raise start_failed(error, image) from error

    async def start(self, sandbox_id: str, image: Image) -> None:
        """Start a container.

        Raises:
            EnvFailed: Its image does not start.
            HostError: The engine failed.
        """
        self._engine.keeps = True
        try:
            await self._engine.call("POST", f"/containers/{segment(sandbox_id)}/start", doing="start the container")
        except EngineError as error:
            raise start_failed(error, image) from error

    @property
    def _uses_volumes(self) -> bool:
        """Whether the engine sees none of our directories, or is not to be asked for them."""
        chosen = self._options.runtime_mount
        return self._unseen or chosen == "volume" or (chosen == "auto" and not self._engine.endpoint.is_local)
