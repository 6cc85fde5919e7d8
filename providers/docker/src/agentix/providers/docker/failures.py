"""What an engine's refusals mean: whose fault they are, and what to do."""

from __future__ import annotations

import platform

from agentix.api import EnvFailed, HostError
from agentix.providers.docker.engine import EngineError
from agentix.providers.docker.facts import Facts
from agentix.providers.docker.image import Image, normal


def check_engine(facts: Facts, url: str) -> None:
    """Refuse an engine on which no sandbox can run.

    Raises:
        HostError: It runs other containers than ours.
    """
    if facts.os != "linux":
        raise HostError(f"the engine at {url} runs {facts.os} containers, not Linux ones", detail="engine")
    own = normal(platform.machine().lower())
    theirs = normal(facts.architecture)
    if theirs and theirs != own:
        raise HostError(
            f"the engine at {url} runs on {theirs}, and agentix's runtime is built for this machine's {own}",
            detail="engine",
            hint=f"run agentix on a machine with {theirs}, or use an engine on {own}",
        )


def creation_failed(error: EngineError, image: Image) -> HostError | EnvFailed:
    """What it means that a container could not be created."""
    reason = error.reason.lower()
    if "mount" in reason or "bind source" in reason:
        return EnvFailed(f"a mount cannot be made: {error.reason}", detail="mount")
    if error.status == 400 or "not a directory" in reason:
        return EnvFailed(f"the engine refuses a container of {image.name}: {error.reason}", detail="container")
    return error


def start_failed(error: EngineError, image: Image) -> HostError | EnvFailed:
    """What it means that a container could not be started."""
    if error.detail == "disk_full":
        return error
    reason = error.reason.lower()
    if "exec format error" in reason:
        return EnvFailed(
            f"a container of {image.name} does not start: the engine cannot run {image.platform}",
            detail="image_platform",
        )
    if error.status in (400, 404, 409) or "mkdir" in reason or "not a directory" in reason:
        return EnvFailed(f"a container of {image.name} does not start: {error.reason}", detail="container")
    return error
