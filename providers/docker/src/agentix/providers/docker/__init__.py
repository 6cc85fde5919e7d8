"""The sandbox provider `docker`: containers on a Docker or Podman engine."""

from agentix.providers.docker.config import DockerConfig
from agentix.providers.docker.provider import DockerProvider

__all__ = ["DockerConfig", "DockerProvider"]
