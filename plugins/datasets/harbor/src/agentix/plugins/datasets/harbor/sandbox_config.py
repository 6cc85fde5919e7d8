"""The sandboxes that a task asks for."""

from __future__ import annotations

from pathlib import Path

from agentix.api import ImageBuild, SandboxConfig
from agentix.plugins.datasets.harbor.compose import compose
from agentix.plugins.datasets.harbor.network import NetworkPolicy
from agentix.plugins.datasets.harbor.schema import Environment
from agentix.plugins.datasets.harbor.support import agent_network, refuse_unsupported, verifier_network
from agentix.plugins.datasets.harbor.task import TASK_FILE, Stage, Task
from agentix.plugins.datasets.harbor.template import resolve_env


def agent_image(task: Task, *, force_build: bool = False) -> str | ImageBuild:
    """The image of the agent's sandbox: the one that is named, else the one that `environment/` builds."""
    return _image(task.file.environment.docker_image, task.directory / "environment", force_build=force_build)


def agent_config(task: Task, *, force_build: bool = False) -> SandboxConfig:
    """The agent's sandbox.

    Args:
        task: The task.
        force_build: Whether a Dockerfile wins over an image that is named.

    Raises:
        EnvFailed: The task asks for something that is not there.
    """
    refuse_unsupported(task)
    file = task.file
    # Found missing after the agent has worked for an hour, a variable of the tests would cost that hour.
    for stage in task.stages:
        resolve_env(stage.verifier_env, where=f"{task.directory / TASK_FILE}: {stage.key}verifier.env")
    where = f"{task.directory / TASK_FILE}: environment.env"
    return _config(
        file.environment,
        task.directory / "environment",
        image=agent_image(task, force_build=force_build),
        network=agent_network(task.stages[0]),
        where=where,
    )


def verifier_config(stage: Stage, *, force_build: bool = False) -> SandboxConfig:
    """The sandbox of a separate verifier."""
    image = stage.verifier_image
    return _config(
        image.environment,
        image.directory,
        image=_image(image.image, image.directory, force_build=force_build),
        network=verifier_network(stage, image.environment.network),
        where=f"{stage.task.directory / TASK_FILE}: {stage.key}verifier.environment.env",
    )


def uploads_environment(task: Task) -> bool:
    """Whether the files in `environment/` reach the sandbox by upload, since no image is built from them."""
    directory = task.directory / "environment"
    return bool(task.file.environment.docker_image) and directory.is_dir() and not (directory / "Dockerfile").is_file()


def _image(name: str | None, context: Path, *, force_build: bool) -> str | ImageBuild:
    if name and not (force_build and (context / "Dockerfile").is_file()):
        return name
    return ImageBuild(context=context)


def _config(
    environment: Environment, directory: Path, *, image: str | ImageBuild, network: NetworkPolicy, where: str
) -> SandboxConfig:
    services = compose(directory, environment)
    if services is not None and isinstance(image, ImageBuild) and not image.dockerfile_path.is_file():
        # The compose file says what its main service runs.
        image = ""
    return SandboxConfig(
        image=image or None,
        compose=services,
        workdir=environment.workdir,
        env=resolve_env(environment.env, where=where),
        network=network.network,
        allowed_hosts=network.hosts,
        cpus=environment.cpus,
        memory_mb=environment.memory_mb,
        storage_mb=environment.storage_mb,
        gpus=environment.gpus,
        build_timeout_s=environment.build_timeout_sec,
    )
